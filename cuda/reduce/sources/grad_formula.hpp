#pragma once
// Gradients by a formula instead of a model: the same bits on a device and on the host, for tests
// and benchmarks of whole steps.

#include <cstdint>

namespace zeroproof::cuda {

/// Element i of micro-batch j in step n, under the loss scale 2^s:
///
///   k = (word >> 24) - 128, the word of element i of Philox4x32-10 with this seed, stream leaf_stream + j, t = n (R15)
///   leaf = k * 2^-8 * 2^s in fp32, rounded to the gradient dtype (R8)
///
/// k has at most 8 significant bits, so nothing rounds while 2^s is inside the range of the dtype:
/// from s = 17 on an fp16 gradient has infinities, as a model's would.
struct GradFormula {
  std::uint64_t seed = 1;
  /// Period in steps of a step with one +infinite element; 0: never.
  std::int64_t overflow_every = 0;
  std::int64_t overflow_element = 0;  ///< the infinite one, of micro-batch 0; not of padding

  /// The index of the element that overflows; -1 if none does.
  std::int64_t overflow(std::int64_t step, std::int64_t micro_batch) const {
    const bool now = overflow_every > 0 && micro_batch == 0 && (step + 1) % overflow_every == 0;
    return now ? overflow_element : -1;
  }
};

inline constexpr std::uint32_t leaf_stream = 0x4C460000;

}  // namespace zeroproof::cuda
