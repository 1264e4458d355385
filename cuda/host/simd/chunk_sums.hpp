#pragma once
// Chunk values of R12, for any source of values. Included by the files compiled once per
// instruction set.

#include <cstdint>

#include "cuda/host/simd/variant.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {

constexpr std::int64_t chunk = 1024;
constexpr int lanes = 32;
constexpr int line = 16;  // values of a cache line

/// Halving tree over the 32 lanes.
inline double fold_lanes(double* lane) {
  for (int width = lanes / 2; width >= 1; width /= 2) {
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  }
  return lane[0];
}

/// Prefetches two chunks ahead: the processor's own prefetching stops at every page of 4 KiB, which
/// is a chunk. An address behind the buffer does no harm; it is an integer here because a pointer
/// may not go there.
inline void prefetch_ahead(const void* x) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(x) +
                                                   2 * chunk * sizeof(float)));
}

/// Sums the squares of `numel` <= 1024 values from `begin` on into the 32 lanes of R12. In the
/// order of memory: taking every second line would wait for memory twice as long. source.values(i,
/// count, to) gives `count` <= 32 of them.
template <class Source>
inline void square_lanes(Source&& source, std::int64_t begin, std::int64_t numel, double* lane) {
  double sum[lanes] = {};
  const std::int64_t whole = numel / lanes * lanes;
  float values[lanes];
  for (std::int64_t i = 0; i < whole; i += lanes) {
    source.values(begin + i, lanes, values);
#pragma omp simd
    for (int l = 0; l < lanes; ++l) {
      const double square = static_cast<double>(values[l]) * static_cast<double>(values[l]);
      sum[l] = sum[l] + square;
    }
  }
  const int rest = static_cast<int>(numel - whole);
  if (rest > 0) source.values(begin + whole, rest, values);
  for (int l = 0; l < rest; ++l) {
    const double square = static_cast<double>(values[l]) * static_cast<double>(values[l]);
    sum[l] = sum[l] + square;
  }
  for (int l = 0; l < lanes; ++l) lane[l] = sum[l];
}

/// Returns non-zero if a chunk value is not finite. Squares of finite fp32 values cannot overflow a sum of 1024 in
/// fp64, so that is the case exactly if one of the values is not finite.
template <class Source>
inline std::uint32_t all_chunks(Source&& source, std::int64_t numel, double* sums) {
  std::uint32_t found = 0;
  for (std::int64_t begin = 0; begin < numel; begin += chunk) {
    double lane[lanes];
    square_lanes(source, begin, numel - begin < chunk ? numel - begin : chunk, lane);
    const double value = fold_lanes(lane);
    sums[begin / chunk] = value;
    const std::uint64_t bits = __builtin_bit_cast(std::uint64_t, value);
    if ((bits & 0x7FF0000000000000U) == 0x7FF0000000000000U) found = 1;
  }
  return found;
}

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
