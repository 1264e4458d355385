#pragma once
// Shared by the tests of the layers' implementations: buffers with values, and sums in the 8 blocks
// of R18 computed one element at a time.

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/cuda/device_place.hpp"

namespace zeroproof::tests {

using device_test::Place;

/// Sums of blocks first to first + count of n terms, folded to the largest possible nodes.
inline float sum_in_blocks(std::int64_t n, const std::function<float(std::int64_t)>& term,
                           int first = 0, int count = 8) {
  std::vector<float> sums;
  for (int b = first; b < first + count; ++b) {
    float sum = 0.0F;
    for (std::int64_t j = n * b / 8; j < n * (b + 1) / 8; ++j) sum += term(j);
    sums.push_back(sum);
  }
  while (sums.size() > 1) {
    std::vector<float> next;
    for (std::size_t b = 0; b < sums.size(); b += 2) next.push_back(sums[b] + sums[b + 1]);
    sums = next;
  }
  return sums[0];
}

/// Values of the usual size, from -2 to 2.
inline void fill_usual(Span<float> values, std::uint64_t stream) {
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    values[i] = (static_cast<float>(device_test::hash(i, stream) >> 8) - 0x1p23F) * 0x1p-22F;
  }
}

/// The same, or with infinities, NaN, zeros and subnormals among them.
inline void fill_kind(Span<float> values, std::uint64_t stream, bool special) {
  fill_usual(values, stream);
  if (!special) return;
  const float rare[] = {0.0F,     -0.0F,      0x1p-149F, -0x1p-130F,
                        0x1p127F, -0x1.8p65F, HUGE_VALF, std::nanf("")};
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = device_test::hash(i, stream + 50);
    if (bits % 16 == 0) values[i] = rare[bits / 16 % 8];
  }
}

/// A buffer `offset` elements behind a 16-byte boundary, filled.
inline Place<float> filled(std::int64_t numel, int offset, std::uint64_t stream, bool special) {
  Place<float> place(numel, offset);
  fill_kind(place.span(), stream, special);
  return place;
}

/// exp and log in the processor's 64-bit mantissa, rounded once (R23): correct unless the value is
/// within 2^-64 of the middle between two fp32 numbers, which no value here is.
inline float rounded_exp(float x) {
  return static_cast<float>(std::exp(static_cast<long double>(x)));
}
inline float rounded_log(float x) {
  return static_cast<float>(std::log(static_cast<long double>(x)));
}

struct Shape {
  std::int64_t rows, n;
};

/// Odd shapes, fewer rows than blocks, rows shorter than blocks, more columns than a tile, more
/// rows than one thread processes at once.
inline const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {{0, 5},   {1, 1},    {3, 1},    {1, 7},
                                         {2, 8},   {5, 9},    {9, 16},   {33, 17},
                                         {70, 33}, {12, 100}, {3, 1027}, {129, 255}};
  return all;
}

}  // namespace zeroproof::tests
