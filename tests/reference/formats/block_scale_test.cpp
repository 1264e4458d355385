// Tensors with a scale for every block: blocks at the end of a tensor, parts that split blocks, and
// quantizing and dequantizing.

#include "common/base/float_formats.hpp"
#include "reference/formats/block_scaled.hpp"
#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace block_scale_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

constexpr std::uint32_t inf_bits = 0x7F800000U;
constexpr std::uint32_t nan_bits = 0x7FFFFFFFU;

std::uint32_t amax_of(float value) { return std::bit_cast<std::uint32_t>(value); }

std::vector<std::uint32_t> amaxes(const BlockGrid& grid, const std::vector<float>& values,
                                  QuantizedValue value = QuantizedValue::direct) {
  std::vector<std::uint32_t> amax(grid.num_blocks());
  reference::block_amax({}, grid, value, 0, values, amax);
  return amax;
}

const std::vector<BlockGrid>& grids() {
  static const std::vector<BlockGrid> all = {
      {3, 300, 1, 128},  {260, 150, 128, 128}, {5, 70, 1, 32},   {70, 5, 32, 1}, {1, 1, 1, 32},
      {7, 33, 128, 128}, {4, 32, 1, 32},       one_block(9, 31), {6, 10, 4, 3},  {0, 40, 1, 32}};
  return all;
}

}  // namespace

TEST_CASE("block grid: numbers of blocks") {
  CHECK(BlockGrid{3, 300, 1, 128}.num_blocks() == 9);
  CHECK(BlockGrid{260, 150, 128, 128}.num_blocks() == 6);
  CHECK(BlockGrid{1, 1, 128, 128}.num_blocks() == 1);
  CHECK(BlockGrid{0, 40, 1, 32}.num_blocks() == 0);
  CHECK(BlockGrid{40, 0, 1, 32}.num_blocks() == 0);
  CHECK(one_block(9, 31).num_blocks() == 1);
  CHECK(one_block(0, 0).is_legal());
  CHECK(BlockGrid{BlockGrid::most, 1, 1, 32}.is_legal());
  CHECK_FALSE(BlockGrid{BlockGrid::most, 2, 1, 32}.is_legal());
  CHECK_FALSE(BlockGrid{-1, 2, 1, 32}.is_legal());
  CHECK_FALSE(BlockGrid{1, 2, 0, 32}.is_legal());
}

TEST_CASE("block amax: by hand, with partial blocks at the end of the tensor") {
  // 2 x 5 in blocks of 1 x 2: the last block of a row has one element.
  const BlockGrid grid{2, 5, 1, 2};
  const std::vector<float> values = {1, -2, 0, -0.0F, 3, /**/ inf32, 1, nan32, 5, -0x1p-149F};
  CHECK(amaxes(grid, values) ==
        std::vector<std::uint32_t>{amax_of(2), 0, amax_of(3), inf_bits, nan_bits, 1});
  // The same as 2 x 5 in blocks of 2 x 3.
  CHECK(amaxes({2, 5, 2, 3}, values) == std::vector<std::uint32_t>{nan_bits, amax_of(5)});
  // 1 + 2^-8 is a tie in bf16 and becomes 1, 1 + 3 * 2^-8 becomes 1 + 2^-6.
  CHECK(amaxes({1, 1, 1, 1}, {0x1.01p0F}, QuantizedValue::through_bf16) ==
        std::vector<std::uint32_t>{amax_of(1)});
  CHECK(amaxes({1, 1, 1, 1}, {0x1.03p0F}, QuantizedValue::through_bf16) ==
        std::vector<std::uint32_t>{amax_of(0x1.04p0F)});
}

TEST_CASE("block amax: raised, never lowered; blocks without elements in the part do not change") {
  const BlockGrid grid{2, 4, 1, 2};
  std::vector<std::uint32_t> amax = {amax_of(10), nan_bits, amax_of(1), 7};
  const std::vector<float> values = {3, -4};
  reference::block_amax({}, grid, QuantizedValue::direct, 3, values, amax);
  CHECK(amax == std::vector<std::uint32_t>{amax_of(10), nan_bits, amax_of(4), 7});
}

TEST_CASE("block quantize: by hand") {
  const BlockQuantization options{{2, 3, 1, 2}};
  const std::vector<float> values = {1, -3, 0.5F, 448, 1000, -0.0F};
  const std::vector<float> scale = {128, 64, 1, 2};  // blocks: {1, -3}, {0.5}, {448, 1000}, {-0}
  std::vector<e4m3> codes(6);
  reference::block_quantize_e4m3({}, options, 0, values, scale, codes);
  std::vector<int> found;
  for (const e4m3 code : codes) found.push_back(code.bits);
  // 128 is 2^7 (0x70), 384 is 1.5 * 2^8 (0x7C), 32 is 2^5 (0x60); 1000 saturates.
  CHECK(found == std::vector<int>{0x70, 0xFC, 0x60, 0x7E, 0x7E, 0x80});
  std::vector<float> back(6);
  const std::vector<float> inverse = {0x1p-7F, 0x1p-6F, 1, 0.5F};
  reference::block_dequantize_e4m3({}, options.grid, 0, codes, inverse, back);
  CHECK(back == std::vector<float>{1, -3, 0.5F, 448, 448, 0});
  CHECK(std::signbit(back[5]));

  BlockQuantization nonfinite = options;
  nonfinite.overflow = Overflow::nonfinite;
  reference::block_quantize_e4m3({}, nonfinite, 0, values, scale, codes);
  CHECK((codes[4].bits & 0x7F) == 0x7F);
  std::vector<e5m2> five(6);
  const std::vector<float> large(4, 0x1p10F);
  reference::block_quantize_e5m2({}, nonfinite, 0, values, large, five);
  CHECK(five[4].bits == 0x7C);
  reference::block_quantize_e5m2({}, options, 0, values, large, five);
  CHECK(five[4].bits == 0x7B);
}

TEST_CASE("block quantize: through bf16 rounds twice, on purpose") {
  // 1 + 2^-4 + 2^-10 is above the tie between 1 and 1.125; in bf16 it becomes the tie itself, which
  // rounds to 1.
  const std::vector<float> values = {0x1.104p0F};
  const std::vector<float> scale = {1};
  std::vector<e4m3> code(1);
  reference::block_quantize_e4m3({}, {one_block(1, 1)}, 0, values, scale, code);
  CHECK(code[0].bits == 0x39);
  reference::block_quantize_e4m3({}, {one_block(1, 1), QuantizedValue::through_bf16}, 0, values,
                                 scale, code);
  CHECK(code[0].bits == 0x38);
}

TEST_CASE("block scales: parts with any boundaries have the bits of the whole tensor") {
  for (const BlockGrid& grid : grids()) {
    const std::vector<float> values = random_values(grid.numel(), 5);
    for (const bool mxfp8 : {false, true}) {
      for (const Fp8 format : {Fp8::e4m3, Fp8::e5m2}) {
        for (const QuantizedValue value : {QuantizedValue::direct, QuantizedValue::through_bf16}) {
          const BlockQuantization options{grid, value};
          const reference::BlockRecipe recipe{mxfp8, {format, 0, true}};
          const reference::BlockScaled whole = reference::quantized(options, recipe, values);
          for (const std::int64_t ranks : {1, 2, 3, 7}) {
            // Every rank has the amax of its part; an integer maximum joins them.
            std::vector<std::uint32_t> joined(grid.num_blocks());
            const auto part_of = [&](std::int64_t rank) {
              const std::int64_t begin = grid.numel() * rank / ranks,
                                 end = grid.numel() * (rank + 1) / ranks;
              return std::pair(begin, Span<const float>(values).subspan(begin, end - begin));
            };
            for (std::int64_t rank = 0; rank < ranks; ++rank) {
              std::vector<std::uint32_t> own(joined.size());
              const auto [begin, part] = part_of(rank);
              reference::block_amax({}, grid, value, begin, part, own);
              for (std::size_t b = 0; b < own.size(); ++b) joined[b] = std::max(joined[b], own[b]);
            }
            const reference::BlockScales scales = reference::block_scales(recipe, joined);
            std::vector<std::uint8_t> codes;
            for (std::int64_t rank = 0; rank < ranks; ++rank) {
              const auto [begin, part] = part_of(rank);
              const std::vector<std::uint8_t> own =
                  reference::quantized_part(options, format, begin, part, scales.scale);
              codes.insert(codes.end(), own.begin(), own.end());
            }
            CHECK(codes == whole.codes);
            CHECK(scales.scale_inv == whole.scale_inv);
          }
        }
      }
    }
  }
}

TEST_CASE("block scales: dequantized values are within the rounding of the format") {
  for (const BlockGrid& grid : grids()) {
    const std::vector<float> values = random_values(grid.numel(), 9, 3);
    for (const bool mxfp8 : {false, true}) {
      const reference::BlockScaled tensor =
          reference::quantized({grid}, {mxfp8, {Fp8::e4m3, 0, true}}, values);
      CHECK(tensor.exponents.size() == (mxfp8 ? tensor.scale_inv.size() : 0));
      const std::vector<float> back = reference::dequantized(tensor);
      // Scales are powers of two, so only the cast rounds: 2^-4 of a normal number, 2^-10 of the
      // scale otherwise, which is at most 2^-17 of the block's amax (448 is below 2^9, and a power
      // of two loses less than one more).
      std::int64_t outside = 0;
      const std::vector<std::uint32_t> amax = amaxes(grid, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto e = static_cast<std::int64_t>(i);
        const auto block =
            static_cast<std::size_t>(e / grid.columns / grid.block_rows * grid.blocks_across() +
                                     e % grid.columns / grid.block_columns);
        const double error = std::fabs(double{back[i]} - double{values[i]});
        const double relative = std::ldexp(std::fabs(double{values[i]}), -4);
        const double absolute = std::ldexp(double{std::bit_cast<float>(amax[block])}, -17);
        outside += error <= std::max(relative, absolute) ? 0 : 1;
      }
      CHECK(outside == 0);
    }
  }
}

TEST_CASE("block scales: with mxfp8 one NaN makes NaNs of its block only") {
  std::vector<float> values(96, 1.0F);
  values[40] = nan32;
  const reference::BlockScaled tensor = reference::quantized({{1, 96, 1, 32}}, {true, {}}, values);
  const std::vector<float> back = reference::dequantized(tensor);
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::isnan(back[i]) == (i / 32 == 1));
  // fp32 scales are 1 in this case: the other elements of the block keep their numbers.
  const std::vector<float> other =
      reference::dequantized(reference::quantized({{1, 96, 1, 32}}, {}, values));
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::isnan(other[i]) == (i == 40));
}

TEST_CASE("block scales: invalid arguments are rejected and nothing is written") {
  const BlockGrid grid{2, 5, 1, 2};
  const std::vector<float> ten(10, 1.0F), four(4, 1.0F);
  std::vector<std::uint32_t> six(6, 7), five(5, 7);
  std::vector<float> scale(6, 1.0F), target(10, 7.0F);
  std::vector<e4m3> codes(10, e4m3{7});
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const QuantizedValue direct = QuantizedValue::direct;
  ZP_CHECK_INVALID(reference::block_amax({}, grid, direct, 0, ten, five));
  for (const std::int64_t first : {std::int64_t{-1}, std::int64_t{1}, most}) {
    ZP_CHECK_INVALID(reference::block_amax({}, grid, direct, first, ten, six));
    ZP_CHECK_INVALID(reference::block_quantize_e4m3({}, {grid}, first, ten, scale, codes));
    ZP_CHECK_INVALID(reference::block_dequantize_e4m3({}, grid, first, codes, scale, target));
  }
  for (const BlockGrid& bad :
       {BlockGrid{-2, 5, 1, 2}, BlockGrid{2, -5, 1, 2}, BlockGrid{2, 5, 0, 2},
        BlockGrid{2, 5, 1, 0}, BlockGrid{most, most, 1, 2}}) {
    ZP_CHECK_INVALID(reference::block_amax({}, bad, direct, 0, ten, six));
    ZP_CHECK_INVALID(reference::quantized({bad}, {}, ten));
  }
  ZP_CHECK_INVALID(reference::block_quantize_e4m3({}, {grid}, 0, ten, four, codes));
  ZP_CHECK_INVALID(reference::block_quantize_e4m3({}, {grid}, 0, four, scale, codes));
  ZP_CHECK_INVALID(reference::block_dequantize_e4m3({}, grid, 0, codes, four, target));
  CHECK(six == std::vector<std::uint32_t>(6, 7));
  for (const e4m3 code : codes) CHECK(code.bits == 7);
  CHECK(target == std::vector<float>(10, 7.0F));
  reference::block_amax({}, grid, direct, 10, {},
                        six);  // an empty part at the end of the tensor is valid
}

}  // namespace block_scale_test
