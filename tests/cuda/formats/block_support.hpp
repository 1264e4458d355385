#pragma once
// Block scales against the reference, for the implementations of the host and those of the device.

#include <cmath>
#include <limits>
#include <vector>

#include "reference/operations.hpp"
#include "tests/cuda/device_place.hpp"
#include "tests/cuda/expect_error.hpp"

namespace zeroproof::tests {

using device_test::Place;

struct BlockImplementations {
  BlockAmaxFn* amax;
  BlockQuantizeE4m3Fn* to_e4m3;
  BlockQuantizeE5m2Fn* to_e5m2;
  BlockDequantizeE4m3Fn* from_e4m3;
  BlockDequantizeE5m2Fn* from_e5m2;
};

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

/// Codes of `source`, and values of any codes.
template <class Format, class Quantize, class Dequantize>
void check_conversions(const Exec& exec, const BlockGrid& grid, std::int64_t first,
                       const Place<float>& source, int offset, Quantize* quantize,
                       Dequantize* dequantize, Quantize* expected_quantize,
                       Dequantize* expected_dequantize) {
  const std::int64_t part = numel(source.span());
  std::vector<float> scale(grid.num_blocks());
  device_test::fill(scale, 9);
  for (std::size_t b = 0; b < scale.size(); b += 2)
    scale[b] = std::ldexp(1.0F + static_cast<float>(b % 5) / 7, static_cast<int>(b % 11));
  Place<Format> codes(part, offset), want(part, 0);
  for (const QuantizedValue value : {QuantizedValue::direct, QuantizedValue::through_bf16}) {
    for (const Overflow overflow : {Overflow::saturate, Overflow::nonfinite}) {
      quantize(exec, {grid, value, overflow}, first, source.span(), scale, codes.span());
      expected_quantize({}, {grid, value, overflow}, first, source.span(), scale, want.span());
      codes.check([&](std::int64_t i) { return want[i]; });
    }
  }
  device_test::fill(codes.span(), 4);
  Place<float> back(part, offset), want_back(part, 0);
  dequantize(exec, grid, first, codes.span(), scale, back.span());
  expected_dequantize({}, grid, first, codes.span(), scale, want_back.span());
  back.check([&](std::int64_t i) { return want_back[i]; });
}

/// Tensors of odd sizes, parts that begin anywhere, and buffers at several alignments.
inline void check_blocks(const Exec& exec, const BlockImplementations& implementations) {
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
    // Infinite and NaN elements would hide everything else in large blocks: a second time without.
    Place<float> source(shape.part, shape.offset), finite(shape.part, shape.offset);
    device_test::fill(source.span(), 2);
    device_test::fill_finite(finite.span(), 2);
    for (const BlockGrid& grid : grids_of(shape.rows, shape.columns)) {
      CAPTURE(grid.block_rows);
      CAPTURE(grid.block_columns);
      for (const QuantizedValue value : {QuantizedValue::direct, QuantizedValue::through_bf16}) {
        for (const Place<float>* values : {&source, &finite}) {
          std::vector<std::uint32_t> amax(grid.num_blocks());
          for (std::size_t b = 0; b < amax.size(); b += 3) amax[b] = 0x3F800000;
          std::vector<std::uint32_t> want = amax;
          implementations.amax(exec, grid, value, shape.first, values->span(), amax);
          reference::block_amax({}, grid, value, shape.first, values->span(), want);
          CHECK(amax == want);
        }
      }
      check_conversions<e4m3>(exec, grid, shape.first, source, shape.offset,
                              implementations.to_e4m3, implementations.from_e4m3,
                              reference::block_quantize_e4m3, reference::block_dequantize_e4m3);
      check_conversions<e5m2>(exec, grid, shape.first, source, shape.offset,
                              implementations.to_e5m2, implementations.from_e5m2,
                              reference::block_quantize_e5m2, reference::block_dequantize_e5m2);
    }
  }
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
