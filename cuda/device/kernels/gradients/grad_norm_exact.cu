// The forms `exact` and `one`: every element is deposited alone.

#include "cuda/device/kernels/base/device_value.hpp"
#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/gradients/norm_pieces.hpp"
#include "cuda/device/kernels/gradients/norm_sums.cuh"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

template <NormTerm term>
struct AddTerms {
  static constexpr int pack_numel = 4;
  const float* grad;  // [numel]
  Sum* sums;          // [norm_num_sums] of the launch
  Sum* block_sums = nullptr;
  TermDeposits<term> terms{};

  ZP_DEVICE void start() { block_sums = start_block_sums(); }

  ZP_DEVICE void one(std::int64_t i) { terms.add(grad[i], block_sums); }

  ZP_DEVICE void pack(std::int64_t i) {
    const Pack<float> g = load_pack(grad + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) terms.add(g.v[k], block_sums);
  }

  ZP_DEVICE void finish() {
    terms.flush(block_sums);
    finish_block_sums(block_sums, sums);
  }
};

template <NormTerm term>
void accumulate(std::int64_t piece_numel, Span<const float> grad, NormLimbs& limbs) {
  for_each_norm_piece(numel(grad), piece_numel, [&](std::int64_t first, std::int64_t count) {
    const DeviceValue<NormSums> sums({});
    const AddTerms<term> operation{grad.data() + first, sums.get()->data()};
    run_elementwise(operation, count, operation.grad);
    add_norm_sums(sums.fetch(), limbs);
  });
}

}  // namespace

void grad_norm_exact_accumulate(const Exec&, Span<const float> grad, NormLimbs& limbs) {
  grad_norm_exact_in_pieces(norm_piece_numel, grad, limbs);
}

void grad_norm_exact_in_pieces(std::int64_t piece_numel, Span<const float> grad, NormLimbs& limbs) {
  accumulate<NormTerm::square>(piece_numel, grad, limbs);
}

void grad_abs_accumulate(const Exec&, Span<const float> grad, NormLimbs& limbs) {
  grad_abs_in_pieces(norm_piece_numel, grad, limbs);
}

void grad_abs_in_pieces(std::int64_t piece_numel, Span<const float> grad, NormLimbs& limbs) {
  accumulate<NormTerm::magnitude>(piece_numel, grad, limbs);
}

}  // namespace zeroproof::cuda::device
