// Clips by mean square (R26): errors of every candidate as limbs, and the candidate with the
// smallest error.

#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/formats/fake_element.cuh"
#include "cuda/device/kernels/gradients/norm_finish.cuh"
#include "cuda/device/kernels/gradients/norm_pieces.hpp"
#include "cuda/device/kernels/gradients/norm_sums.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/formats/calibration_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

// Limbs, nan_count, inf_count, and no other word.
static_assert(sizeof(NormLimbs) == norm_num_sums * sizeof(Sum));

/// Candidate number m - first_clip for an amax, both as bits.
ZP_HOST_DEVICE inline std::uint32_t clipped_bits(std::uint32_t amax, int candidate) {
  if (amax > infinite_amax) return amax;
  const double share =
      static_cast<double>(first_clip + candidate) * 0x1p-5;  // exact, and so is the product
  return bits_of(static_cast<float>(static_cast<double>(float_of(amax)) * share));
}

/// Element i is element i % numel of values, clipped by candidate i / numel. The elements of one
/// candidate are adjacent, so a thread mostly adds to the same limbs; it flushes them when the
/// candidate changes.
template <class Element>
struct AddErrors {
  static constexpr int pack_numel = 1;
  PartBlocks blocks;
  Element element;
  std::int64_t numel;
  const float* values;        // [numel]
  const std::uint32_t* amax;  // [num_blocks]
  Sum* errors;                // [num_blocks * num_clips * norm_num_sums]
  std::int64_t set = 0;       // which limbs `kept` belongs to
  NormDeposit kept{0, {0, 0, 0}};

  ZP_DEVICE void one(std::int64_t i) {
    const std::int64_t candidate = i / numel, at = i - candidate * numel;
    const std::int64_t block = blocks.of(at);
    const std::uint32_t clipped = clipped_bits(amax[block], static_cast<int>(candidate));
    const float error = values[at] - element(amax_with_one_nan(clipped), values[at]);
    if (error == 0.0F) return;
    const double e = static_cast<double>(error);
    const NormDeposit deposit = norm_deposit(e * e);
    const std::int64_t here = block * num_clips + candidate;
    if (here != set || deposit.first != kept.first) {
      finish();
      set = here;
      kept.first = deposit.first;
    }
    ZP_UNROLL
    for (int k = 0; k < 3; ++k) kept.digits[k] += deposit.digits[k];
  }

  ZP_DEVICE void pack(std::int64_t i) { one(i); }

  ZP_DEVICE void finish() {
    ZP_UNROLL
    for (int k = 0; k < 3; ++k) {
      if (kept.digits[k] != 0)
        atomicAdd(errors + set * norm_num_sums + kept.first + k, Sum{kept.digits[k]});
      kept.digits[k] = 0;
    }
  }
};

struct CarryErrors {
  static constexpr int pack_numel = 1;
  Sum* errors;  // [sets * norm_num_sums]

  ZP_DEVICE void one(std::int64_t set) const { carry_limbs(errors + set * norm_num_sums); }
  ZP_DEVICE void pack(std::int64_t set) const { one(set); }
};

struct ChooseClip {
  static constexpr int pack_numel = 1;
  const std::uint32_t* amax;    // [num_blocks]
  const std::uint64_t* errors;  // [num_blocks * num_clips * norm_num_sums]
  std::uint32_t* clipped;       // [num_blocks]

  ZP_DEVICE void one(std::int64_t block) const {
    double least = 0.0;
    int best = -1;
    for (int c = 0; c < num_clips; ++c) {
      std::uint64_t sums[norm_num_sums];
      for (int k = 0; k < norm_num_sums; ++k)
        sums[k] = errors[(block * num_clips + c) * norm_num_sums + k];
      const double norm = norm_of_squares(sums);
      if (!is_finite(norm)) {
        clipped[block] = amax[block];
        return;
      }
      if (best < 0 || norm < least) {
        least = norm;
        best = c;
      }
    }
    clipped[block] = clipped_bits(amax[block], best);
  }

  ZP_DEVICE void pack(std::int64_t block) const { one(block); }
};

}  // namespace

void clip_errors(const Exec&, const FakeQuantization& options, std::int64_t first,
                 Span<const float> values, Span<const std::uint32_t> amax, Span<NormLimbs> errors) {
  clip_errors_in_pieces(norm_piece_numel, options, first, values, amax, errors);
}

void clip_errors_in_pieces(std::int64_t piece_numel, const FakeQuantization& options,
                           std::int64_t first, Span<const float> values,
                           Span<const std::uint32_t> amax, Span<NormLimbs> errors) {
  require_fake_quantization("clip_errors", options, first, values.size(), amax.size());
  require_clip_errors("clip_errors", amax.size(), errors.size());
  if (values.empty()) return;
  auto* const sums = reinterpret_cast<Sum*>(errors.data());
  const CarryErrors carry{sums};
  run_elementwise(carry,
                  numel(errors));  // full limbs could overflow with this many more deposits
  for_each_norm_piece(numel(values), piece_numel, [&](std::int64_t begin, std::int64_t count) {
    with_fake_element(options, [&]<class Element>(const Element& element) {
      const AddErrors<Element> operation{PartBlocks(options.grid, first + begin),
                                         element,
                                         count,
                                         values.data() + begin,
                                         amax.data(),
                                         sums};
      run_elementwise(operation, count * num_clips);
    });
    run_elementwise(carry, numel(errors));
  });
}

void clip_of_errors(Span<const std::uint32_t> amax, Span<const NormLimbs> errors,
                    Span<std::uint32_t> clipped) {
  require_same_numel("amax", amax, "clipped", clipped);
  require_clip_errors("clip_of_errors", amax.size(), errors.size());
  if (amax.empty()) return;
  run_elementwise(ChooseClip{amax.data(), reinterpret_cast<const std::uint64_t*>(errors.data()),
                             clipped.data()},
                  numel(amax));
}

}  // namespace zeroproof::cuda::device
