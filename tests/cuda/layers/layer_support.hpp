#pragma once
// Shared by the tests of the layers' implementations: filled buffers, and the outputs of an
// implementation beside those of the reference.

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/cuda/device_place.hpp"
#include "tests/cuda/expect_error.hpp"

namespace zeroproof::tests {

using device_test::Place;

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

/// Outputs of one or more calls, one after another, with the surrounding memory.
using Outputs = std::vector<Place<float>>;

/// The same bits, and the bytes around the outputs are unchanged.
inline void check_same(const Outputs& got, const Outputs& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    CAPTURE(k);
    REQUIRE(got[k].span().size() == expected[k].span().size());
    got[k].check([&](std::int64_t i) { return expected[k][i]; });
  }
}

inline void refused(const std::function<void()>& call) {
  expect_error(ErrorCode::invalid_argument, call);
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
