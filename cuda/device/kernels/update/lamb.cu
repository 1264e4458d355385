#include <algorithm>
#include <array>

#include "cuda/device/kernels/base/device_value.hpp"
#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/base/single.cuh"
#include "cuda/device/kernels/gradients/norm_pieces.hpp"
#include "cuda/device/kernels/update/trust_sums.cuh"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

/// Settings of a call and its operands. Float: const where nothing is written.
template <class Float>
struct LambOperands {
  static constexpr int pack_numel = 4;
  StepScalars scalars;
  std::uint32_t sign_mask;  // the sign bit for maximize
  const float* grad;        // [numel], as the three below
  Float* master;
  Float* exp_avg;
  Float* exp_avg_sq;
};

struct LambUpdate : LambOperands<float> {
  float trust_ratio;

  ZP_DEVICE AdamState next(float g, const AdamState& old) const {
    return lamb_element(scalars, trust_ratio, flip_sign(g, sign_mask), old);
  }

  ZP_DEVICE void one(std::int64_t i) const {
    const AdamState state = next(grad[i], {master[i], exp_avg[i], exp_avg_sq[i], 0.0F});
    master[i] = state.master;
    exp_avg[i] = state.exp_avg;
    exp_avg_sq[i] = state.exp_avg_sq;
  }

  ZP_DEVICE void pack(std::int64_t i) const {
    const Pack<float> g = load_pack(grad + i);
    Pack<float> w = load_pack(master + i);
    Pack<float> m = load_pack(exp_avg + i);
    Pack<float> v = load_pack(exp_avg_sq + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) {
      const AdamState state = next(g.v[k], {w.v[k], m.v[k], v.v[k], 0.0F});
      w.v[k] = state.master;
      m.v[k] = state.exp_avg;
      v.v[k] = state.exp_avg_sq;
    }
    store_pack(master + i, w);
    store_pack(exp_avg + i, m);
    store_pack(exp_avg_sq + i, v);
  }
};

struct AddNorms : LambOperands<const float> {
  Sum* words;  // [num_trust_words] of the launch
  TrustSums sums{};

  ZP_DEVICE void start() { sums.start(); }
  ZP_DEVICE void finish() { sums.finish(words); }

  ZP_DEVICE void add(float g, const AdamState& old) {
    sums.add(old.master, lamb_change(scalars, flip_sign(g, sign_mask), old).u);
  }

  ZP_DEVICE void one(std::int64_t i) { add(grad[i], {master[i], exp_avg[i], exp_avg_sq[i], 0.0F}); }

  ZP_DEVICE void pack(std::int64_t i) {
    const Pack<float> g = load_pack(grad + i);
    const Pack<float> w = load_pack(master + i);
    const Pack<float> m = load_pack(exp_avg + i);
    const Pack<float> v = load_pack(exp_avg_sq + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) add(g.v[k], {w.v[k], m.v[k], v.v[k], 0.0F});
  }
};

template <class Float>
LambOperands<Float> operands(const LambOptions& options, const StepScalars& scalars,
                             Span<const float> grad, Span<Float> master, Span<Float> exp_avg,
                             Span<Float> exp_avg_sq) {
  require_same_numel("grad", grad, "master", master);
  require_same_numel("grad", grad, "exp_avg", exp_avg);
  require_same_numel("grad", grad, "exp_avg_sq", exp_avg_sq);
  return {scalars,        options.maximize ? sign_bit : 0U,
          grad.data(),    master.data(),
          exp_avg.data(), exp_avg_sq.data()};
}

struct Words {
  std::uint64_t v[num_trust_words];
};

void put(const NormLimbs& limbs, std::uint64_t* words) {
  std::ranges::copy(limbs.limbs, words);
  words[norm_nan_count] = limbs.nan_count;
  words[norm_inf_count] = limbs.inf_count;
}

struct Ratio {
  StepScalars scalars;
  Words words;

  ZP_DEVICE float operator()() const {
    Words own = words;
    return trust_ratio_of(scalars, own.v);
  }
};

}  // namespace

void lamb_norms(const Exec&, const LambOptions& options, const StepScalars& scalars,
                Span<const float> grad, Span<const float> master, Span<const float> exp_avg,
                Span<const float> exp_avg_sq, TrustNorms& norms) {
  lamb_norms_in_pieces(norm_piece_numel, options, scalars, grad, master, exp_avg, exp_avg_sq,
                       norms);
}

void lamb_norms_in_pieces(std::int64_t piece_numel, const LambOptions& options,
                          const StepScalars& scalars, Span<const float> grad,
                          Span<const float> master, Span<const float> exp_avg,
                          Span<const float> exp_avg_sq, TrustNorms& norms) {
  const LambOperands<const float> all =
      operands(options, scalars, grad, master, exp_avg, exp_avg_sq);
  const auto add_piece = [&](std::int64_t first, std::int64_t count) {
    const DeviceValue<std::array<NormSums, 2>> sums({});
    LambOperands<const float> piece = all;
    for (const float** operand : {&piece.grad, &piece.master, &piece.exp_avg, &piece.exp_avg_sq})
      *operand += first;
    run_elementwise(AddNorms{piece, sums.get()->front().data()}, count, piece.grad, piece.master,
                    piece.exp_avg, piece.exp_avg_sq);
    const std::array<NormSums, 2> found = sums.fetch();
    add_norm_sums(found[0], norms.weight);
    add_norm_sums(found[1], norms.update);
  };
  for_each_norm_piece(numel(grad), piece_numel, add_piece);
}

float lamb_trust_ratio(const StepScalars& scalars, const TrustNorms& norms) {
  Ratio ratio{scalars, {}};
  put(norms.weight, ratio.words.v);
  put(norms.update, ratio.words.v + norm_num_sums);
  return on_device<float>(ratio);
}

void lamb_update(const Exec&, const LambOptions& options, const StepScalars& scalars,
                 float trust_ratio, Span<const float> grad, Span<float> master, Span<float> exp_avg,
                 Span<float> exp_avg_sq) {
  const LambUpdate update{operands(options, scalars, grad, master, exp_avg, exp_avg_sq),
                          trust_ratio};
  if (grad.empty()) return;
  run_elementwise(update, numel(grad), update.grad, update.master, update.exp_avg,
                  update.exp_avg_sq);
}

}  // namespace zeroproof::cuda::device
