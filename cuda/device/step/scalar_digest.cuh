#pragma once
// 64-bit digest of the step scalars of all sets: ranks compare digests instead of the words (R5).

#include <cstring>

#include "common/contracts/step_scalars.hpp"
#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

/// A bijection in which every bit of x changes about half of the bits of the result. Source: the
/// finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014; constants of Stafford's variant 13).
ZP_HOST_DEVICE inline std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// Contribution of a set to the digest, modulo 2^64: the sum does not depend on the thread that
/// computes it. A chain through all words that starts with the number of the set: the same words in
/// another set give another value, and two versions of a set that differ in one word never give the
/// same value.
ZP_HOST_DEVICE inline std::uint64_t digest_of_set(const StepScalars& scalars, std::int64_t set) {
  static_assert(sizeof(StepScalars) == 4 * num_step_scalar_words);
  std::uint32_t words[num_step_scalar_words];
  std::memcpy(words, &scalars, sizeof words);
  std::uint64_t digest = 0x9E3779B97F4A7C15ULL * (static_cast<std::uint64_t>(set) + 1);
  for (int i = 0; i < num_step_scalar_words; ++i) digest = mix_bits(digest ^ words[i]);
  return digest;
}

}  // namespace zeroproof::cuda::device
