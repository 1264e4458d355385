#pragma once
// Block scales of both implementations against a plain reading of R22: the block of every element from its row and column, and
// its arithmetic in fp64, where a product of two fp32 numbers is exact.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "common/base/float_formats.hpp"
#include "common/contracts/block_scale.hpp"
#include "tests/cuda/device_place.hpp"
#include "tests/cuda/expect_error.hpp"

namespace zeroproof::tests {

struct BlockImplementations {
  BlockAmaxFn* amax;
  BlockQuantizeE4m3Fn* to_e4m3;
  BlockQuantizeE5m2Fn* to_e5m2;
  BlockDequantizeE4m3Fn* from_e4m3;
  BlockDequantizeE5m2Fn* from_e5m2;
};

inline std::size_t block_by_hand(const BlockGrid& grid, std::int64_t e) {
  const std::int64_t row = e / grid.columns, column = e % grid.columns;
  const std::int64_t across = (grid.columns - 1) / grid.block_columns + 1;
  return static_cast<std::size_t>(row / grid.block_rows * across + column / grid.block_columns);
}

inline float value_by_hand(QuantizedValue value, float x) {
  return value == QuantizedValue::direct ? x : to_float(to_bf16(x));
}

/// To nearest even among the codes below `beyond`, whose value is the next one of a format without
/// an upper limit.
template <class Format>
int code_by_hand(float y, Overflow overflow) {
  constexpr bool is_e5m2 = std::is_same_v<Format, e5m2>;
  constexpr int fraction = is_e5m2 ? 2 : 3, bias = is_e5m2 ? 15 : 7, most = is_e5m2 ? 0x7B : 0x7E;
  if (std::isnan(y)) return 0x7F;
  const int sign = std::signbit(y) ? 0x80 : 0;
  const double magnitude = std::fabs(static_cast<double>(y));
  const int beyond = overflow == Overflow::saturate ? most : (is_e5m2 ? 0x7C : 0x7F);
  if (magnitude >= 0x1p20) return sign | beyond;
  const int exponent = magnitude < std::ldexp(1.0, 1 - bias) ? 1 - bias : std::ilogb(magnitude);
  const double units =
      std::nearbyint(std::ldexp(magnitude, fraction - exponent));  // exact, then to nearest even
  const int code = static_cast<int>(units) + ((exponent + bias - 1) << fraction);
  return sign | (code > most ? beyond : code);
}

inline std::vector<BlockGrid> grids_of(std::int64_t rows, std::int64_t columns) {
  std::vector<BlockGrid> grids = {one_block(rows, columns)};
  for (const auto& [down, across] : {std::pair<std::int64_t, std::int64_t>{1, 128},
                                     {128, 128},
                                     {1, 32},
                                     {32, 1},
                                     {1, 1},
                                     {3, 5},
                                     {1, 7},
                                     {1000, 1},
                                     {std::int64_t{1} << 60, 2},
                                     {2, std::int64_t{1} << 60}}) {
    grids.push_back({rows, columns, down, across});
  }
  return grids;
}

template <class Format>
void check_conversions(const Exec& exec, const BlockGrid& grid, std::int64_t first,
                       const device_test::Place<float>& source, int offset,
                       const BlockImplementations& implementations) {
  using device_test::Place;
  const std::int64_t part = numel(source.span());
  std::vector<float> scale(grid.num_blocks());
  device_test::fill(scale, 9);
  for (std::size_t b = 0; b < scale.size(); b += 2)
    scale[b] = std::ldexp(1.0F + static_cast<float>(b % 5) / 7, static_cast<int>(b % 11));
  for (const QuantizedValue value : {QuantizedValue::direct, QuantizedValue::through_bf16}) {
    for (const Overflow overflow : {Overflow::saturate, Overflow::nonfinite}) {
      Place<Format> codes(part, offset);
      if constexpr (std::is_same_v<Format, e4m3>) {
        implementations.to_e4m3(exec, {grid, value, overflow}, first, source.span(), scale,
                                codes.span());
      } else {
        implementations.to_e5m2(exec, {grid, value, overflow}, first, source.span(), scale,
                                codes.span());
      }
      codes.check([&](std::int64_t i) {
        const float s = scale[block_by_hand(grid, first + i)];
        const float y = static_cast<float>(static_cast<double>(value_by_hand(value, source[i])) *
                                           static_cast<double>(s));
        return Format{static_cast<std::uint8_t>(code_by_hand<Format>(y, overflow))};
      });
    }
  }
  Place<Format> codes(part, offset);
  device_test::fill(codes.span(), 4);
  Place<float> back(part, offset);
  const Place<Format>& given = codes;
  if constexpr (std::is_same_v<Format, e4m3>) {
    implementations.from_e4m3(exec, grid, first, given.span(), scale, back.span());
  } else {
    implementations.from_e5m2(exec, grid, first, given.span(), scale, back.span());
  }
  back.check([&](std::int64_t i) {
    return static_cast<float>(static_cast<double>(to_float(codes[i])) *
                              static_cast<double>(scale[block_by_hand(grid, first + i)]));
  });
}

/// Tensors of odd sizes, parts that begin anywhere, and buffers at several alignments.
inline void check_blocks(const Exec& exec, const BlockImplementations& implementations) {
  using device_test::Place;
  struct Shape {
    std::int64_t rows, columns, first, part;
    int offset;
  };
  for (const Shape& shape :
       {Shape{1, 1, 0, 1, 0}, Shape{3, 5, 0, 15, 1}, Shape{7, 130, 0, 910, 0},
        Shape{7, 130, 131, 700, 3}, Shape{65, 257, 0, 16705, 0}, Shape{65, 257, 1000, 15001, 2},
        Shape{65, 257, 77, 3, 0}, Shape{260, 1, 5, 250, 0}, Shape{1, 3001, 9, 2900, 1},
        Shape{300, 150, 149, 44000, 0}, Shape{5, 9000, 1, 44000, 0}}) {
    CAPTURE(shape.rows);
    CAPTURE(shape.columns);
    Place<float> source(shape.part, shape.offset);
    device_test::fill(source.span(), 2);
    for (const BlockGrid& grid : grids_of(shape.rows, shape.columns)) {
      CAPTURE(grid.block_rows);
      CAPTURE(grid.block_columns);
      for (const QuantizedValue value : {QuantizedValue::direct, QuantizedValue::through_bf16}) {
        // Infinite and NaN elements would hide everything else in large blocks: a second time
        // without them.
        for (const bool finite : {false, true}) {
          Place<float> values(shape.part, shape.offset);
          device_test::fill(values.span(), 2);
          if (finite) device_test::fill_finite(values.span(), 2);
          std::vector<std::uint32_t> amax(grid.num_blocks());
          for (std::size_t b = 0; b < amax.size(); b += 3) amax[b] = 0x3F800000;
          std::vector<std::uint32_t> want = amax;
          for (std::int64_t i = 0; i < shape.part; ++i) {
            const float v = value_by_hand(value, values[i]);
            const std::uint32_t bits =
                std::isnan(v) ? 0x7FFFFFFFU : std::bit_cast<std::uint32_t>(std::fabs(v));
            std::uint32_t& of_block = want[block_by_hand(grid, shape.first + i)];
            if (bits > of_block) of_block = bits;
          }
          const Place<float>& given = values;
          implementations.amax(exec, grid, value, shape.first, given.span(), amax);
          CHECK(amax == want);
        }
      }
      check_conversions<e4m3>(exec, grid, shape.first, source, shape.offset, implementations);
      check_conversions<e5m2>(exec, grid, shape.first, source, shape.offset, implementations);
    }
  }
}

inline void check_blocks_by_hand(const Exec& exec, const BlockImplementations& implementations) {
  // Two rows of three, blocks of 1 x 2: the last block of a row has one column.
  const BlockGrid grid{2, 3, 1, 2};
  const std::vector<float> values = {1.0F, -3.0F, 0x1.01p0F, -0.0F, 0.0F, std::nanf("")};
  std::vector<std::uint32_t> amax = {0, 0, 5, 0};
  implementations.amax(exec, grid, QuantizedValue::through_bf16, 0, values, amax);
  CHECK(amax == std::vector<std::uint32_t>{0x40400000, 0x3F800000, 5, 0x7FFFFFFF});
  implementations.amax(exec, grid, QuantizedValue::direct, 2,
                       Span<const float>(values).subspan(2, 1), amax);
  CHECK(amax == std::vector<std::uint32_t>{0x40400000, 0x3F808000, 5, 0x7FFFFFFF});
  const std::vector<float> scale = {200.0F, 1.0F, -2.0F, 1.0F};
  std::vector<e4m3> codes(6);
  implementations.to_e4m3(exec, {grid, QuantizedValue::direct, Overflow::saturate}, 0, values,
                          scale, codes);
  const int saturated[] = {0x74, 0xFE, 0x38,
                           0x00, 0x80, 0x7F};  // 200 is in the middle of 192 and 208
  for (std::size_t i = 0; i < 6; ++i) CHECK(int{codes[i].bits} == saturated[i]);
  implementations.to_e4m3(exec, {grid, QuantizedValue::direct, Overflow::nonfinite}, 0, values,
                          scale, codes);
  CHECK((codes[1].bits & 0x7F) == 0x7F);
  std::vector<float> back(6);
  const std::vector<float> inverse = {0.5F, 1.0F, -1.0F, 1.0F};
  const std::vector<e4m3> given = {{0x74}, {0xFE}, {0x01}, {0x00}, {0x80}, {0x7F}};
  implementations.from_e4m3(exec, grid, 0, given, inverse, back);
  CHECK(back[0] == 96.0F);
  CHECK(back[1] == -224.0F);
  CHECK(back[2] == 0x1p-9F);
  CHECK(std::signbit(back[3]));
  CHECK_FALSE(std::signbit(back[4]));
  CHECK(std::isnan(back[5]));
}

inline void check_blocks_refused(const Exec& exec, const BlockImplementations& implementations) {
  constexpr ErrorCode code = ErrorCode::invalid_argument;
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  const std::vector<float> values(6, 3.0F), scale(4, 1.0F);
  std::vector<e4m3> four(6);
  std::vector<e5m2> five(6);
  std::vector<float> back(6);
  std::vector<std::uint32_t> amax(4);
  const auto refused = [&](const BlockGrid& grid, std::int64_t first, std::size_t part,
                           std::size_t blocks) {
    const Span<const float> some(values.data(), part), scales(scale.data(), blocks);
    const Span<const e4m3> fours(four.data(), part);
    const Span<const e5m2> fives(five.data(), part);
    const Span<float> to(back.data(), part);
    const Span<std::uint32_t> found(amax.data(), blocks);
    expect_error(code, [&] {
      implementations.amax(exec, grid, QuantizedValue::direct, first, some, found);
    });
    expect_error(code, [&] {
      implementations.to_e4m3(exec, {.grid = grid}, first, some, scales, {four.data(), part});
    });
    expect_error(code, [&] {
      implementations.to_e5m2(exec, {.grid = grid}, first, some, scales, {five.data(), part});
    });
    expect_error(code, [&] { implementations.from_e4m3(exec, grid, first, fours, scales, to); });
    expect_error(code, [&] { implementations.from_e5m2(exec, grid, first, fives, scales, to); });
  };
  const BlockGrid grid{2, 3, 1, 2};
  refused(grid, -1, 3, 4);
  refused(grid, 1, 6, 4);
  refused(grid, 7, 0, 4);
  refused(grid, huge, 1, 4);
  refused(grid, 0, 6, 3);
  refused({2, 3, 0, 2}, 0, 6, 4);
  refused({2, 3, 1, -2}, 0, 6, 4);
  refused({-2, 3, 1, 2}, 0, 6, 4);
  refused({huge, 3, 1, 2}, 0, 6, 4);
  refused({0, 3, 1, 2}, 0, 0, 4);
  expect_error(code, [&] {
    implementations.to_e4m3(exec, {.grid = grid}, 0, values, scale, {four.data(), 5});
  });
  expect_error(code, [&] {
    implementations.from_e5m2(exec, grid, 0, five, scale, {back.data(), 5});
  });
  CHECK(amax == std::vector<std::uint32_t>(4));
  implementations.amax(exec, {0, 3, 1, 2}, QuantizedValue::direct, 0, {}, {});
  implementations.amax(exec, {huge, 0, 1, 2}, QuantizedValue::direct, 0, {}, {});
  implementations.to_e4m3(exec, {.grid = grid}, 6, {}, scale, {});
  implementations.from_e4m3(exec, grid, 6, {}, scale, {});
}

}  // namespace zeroproof::tests
