// Parts of tensors with a scale for every block: cut anywhere, of many shapes, and refused.

#include <algorithm>
#include <bit>

#include "common/contracts/scale_recipe.hpp"
#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "verification/ops/families.hpp"
#include "verification/ops/on_device.hpp"

namespace zeroproof::verification {
namespace {

/// A tensor of `columns`, of which a call has the elements from `first` on; rows follow after them.
struct BlockCut {
  const char* name;
  std::int64_t columns, first, block_rows, block_columns;
  QuantizedValue value = QuantizedValue::direct;
  Overflow overflow = Overflow::saturate;
};

constexpr QuantizedValue twice = QuantizedValue::through_bf16;
constexpr std::int64_t beyond_all = std::int64_t{1} << 40;  // a block longer than the tensor
constexpr BlockCut block_cuts[] = {
    {"1 x 128", 300, 0, 1, 128},
    {"128 x 128 from its middle, nonfinite", 150, 4171, 128, 128, QuantizedValue::direct,
     Overflow::nonfinite},
    {"1 x 32 from its middle", 70, 33, 1, 32},
    {"32 x 1", 70, 0, 32, 1},
    {"one block", 31, 5, beyond_all, beyond_all},
    {"1 x 32 through bf16", 64, 0, 1, 32, twice},
    {"128 x 128 through bf16, nonfinite", 257, 11, 128, 128, twice, Overflow::nonfinite},
    {"refused", 70, 0, 1, 32}};
constexpr int refused_block_cut = static_cast<int>(std::size(block_cuts)) - 1;
constexpr std::int64_t most_blocks = 1024;

BlockGrid grid_of(const OpCall& call) {
  const BlockCut& cut = block_cuts[call.variant()];
  const std::int64_t rows = (cut.first + call.numel() + cut.columns - 1) / cut.columns + 1;
  return {rows, cut.columns, cut.block_rows, cut.block_columns};
}

/// Arguments of a call: legal, or with one error.
struct BlockCall {
  BlockGrid grid;
  std::int64_t first;
  std::size_t num_blocks;
};

BlockCall block_call(const OpCall& call) {
  const BlockGrid grid = grid_of(call);
  BlockCall p{grid, block_cuts[call.variant()].first, static_cast<std::size_t>(grid.num_blocks())};
  if (call.variant() != refused_block_cut) return p;
  switch (call.numel() % 6) {
    case 0:
      p.grid.block_columns = 0;
      break;
    case 1:
      p.grid.rows = -1;
      break;
    case 2:
      p.grid = {BlockGrid::most, BlockGrid::most, 1, 32};
      break;
    case 3:
      p.first = -1;
      break;
    case 4:
      p.first = grid.numel() - call.numel() + 1;
      break;
    default:
      p.num_blocks -= 1;
  }
  return p;
}

/// Mostly the scales that map a block's largest number to the format's, but some of any bits: the
/// scale is an input.
std::vector<float> drawn_scales(const OpCall& call, Fp8 format) {
  const BlockGrid grid = grid_of(call);
  const BlockCut& cut = block_cuts[call.variant()];
  std::vector<std::uint32_t> amax(grid.num_blocks());
  reference::block_amax({}, grid, cut.value, cut.first, call.in<float>(0), amax);
  std::vector<float> scale(amax.size());
  for (std::size_t b = 0; b < scale.size(); ++b) {
    const PhiloxBlock w = call.words(7, static_cast<std::int64_t>(b));
    const float fitting = largest_of(format) / std::bit_cast<float>(amax[b]);
    const bool number = amax[b] != 0 && amax[b] < 0x7F800000U;
    scale[b] = w[0] % 8U == 0 ? std::bit_cast<float>(w[1]) : number ? fitting : 1;
  }
  return scale;
}

/// Starts from given values, so that blocks without an element here keep them; words without a
/// block are 0.
OpFunction run_amax(BlockAmaxFn* implementation) {
  return [implementation](OpCall& call) {
    const BlockCall p = block_call(call);
    std::vector<std::uint32_t> amax(p.num_blocks);
    for (std::size_t b = 0; b < amax.size(); ++b) {
      const std::uint32_t word = call.words(7, static_cast<std::int64_t>(b))[0];
      amax[b] = word % 3U == 0 ? word % 0x7F800001U : 0;
    }
    call.get<std::uint32_t>(2)[0] = refused([&] {
      implementation(call.exec, p.grid, block_cuts[call.variant()].value, p.first,
                     call.in<float>(0), amax);
    });
    std::ranges::fill(call.get<std::uint32_t>(1), 0U);
    std::ranges::copy(amax, call.get<std::uint32_t>(1).begin());
  };
}

template <class Format>
OpFunction run_quantize(Fp8 format, void (*implementation)(const Exec&, const BlockQuantization&,
                                                           std::int64_t, Span<const float>,
                                                           Span<const float>, Span<Format>)) {
  return [=](OpCall& call) {
    const BlockCall p = block_call(call);
    const BlockCut& cut = block_cuts[call.variant()];
    std::vector<float> scale = drawn_scales(call, format);
    scale.resize(p.num_blocks);
    const BlockQuantization options{p.grid, cut.value, cut.overflow};
    std::ranges::fill(call.get<Format>(1), Format{});
    call.get<std::uint32_t>(2)[0] = refused([&] {
      implementation(call.exec, options, p.first, call.in<float>(0), Span<const float>(scale),
                     call.get<Format>(1));
    });
  };
}

template <class Format>
OpFunction run_dequantize(void (*implementation)(const Exec&, const BlockGrid&, std::int64_t,
                                                 Span<const Format>, Span<const float>,
                                                 Span<float>)) {
  return [=](OpCall& call) {
    const BlockCall p = block_call(call);
    std::vector<float> scale_inv(p.num_blocks);
    for (std::size_t b = 0; b < scale_inv.size(); ++b) {
      const PhiloxBlock w = call.words(7, static_cast<std::int64_t>(b));
      const std::uint32_t near_one = (w[1] & 0x87FFFFFFU) | 0x38000000U;
      scale_inv[b] = std::bit_cast<float>(w[0] % 8U == 0 ? w[1] : near_one);
    }
    std::ranges::fill(call.get<float>(1), 0.0F);
    call.get<std::uint32_t>(2)[0] = refused([&] {
      implementation(call.exec, p.grid, p.first, call.in<Format>(0), Span<const float>(scale_inv),
                     call.get<float>(1));
    });
  };
}

}  // namespace

std::vector<Op> block_scale_ops() {
  Op amax;
  amax.name = "block_amax";
  amax.contract = "block_scale.hpp";
  amax.type = "BlockAmaxFn";
  amax.exactness = Exactness::integer;
  amax.phases = {Phase::cast};
  for (const BlockCut& cut : block_cuts) amax.variants.emplace_back(cut.name);
  amax.operands = {input("values", Content::weight), fixed(output("amax", DType::u32), most_blocks),
                   fixed(output("refused", DType::u32), 1)};
  amax.fills = number_fills();
  amax.fills.push_back(Fill::patterns);
  amax.reference = run_amax(reference::block_amax);
  amax.host = run_amax(cuda::host::block_amax);
  amax.device = run_amax(on_device<cuda::device::block_amax>);

  Op quantize = amax;
  quantize.name = "block_quantize_e4m3";
  quantize.type = "BlockQuantizeE4m3Fn";
  quantize.exactness = Exactness::bitwise;
  quantize.operands[1] = output("target", DType::e4m3);
  quantize.one_result = "it multiplies and rounds in one order";
  quantize.reference = run_quantize<e4m3>(Fp8::e4m3, reference::block_quantize_e4m3);
  quantize.host = run_quantize<e4m3>(Fp8::e4m3, cuda::host::block_quantize_e4m3);
  quantize.device = run_quantize<e4m3>(Fp8::e4m3, on_device<cuda::device::block_quantize_e4m3>);

  Op five = quantize;
  five.name = "block_quantize_e5m2";
  five.type = "BlockQuantizeE5m2Fn";
  five.operands[1] = output("target", DType::e5m2);
  five.reference = run_quantize<e5m2>(Fp8::e5m2, reference::block_quantize_e5m2);
  five.host = run_quantize<e5m2>(Fp8::e5m2, cuda::host::block_quantize_e5m2);
  five.device = run_quantize<e5m2>(Fp8::e5m2, on_device<cuda::device::block_quantize_e5m2>);

  Op dequantize = quantize;
  dequantize.name = "block_dequantize_e4m3";
  dequantize.type = "BlockDequantizeE4m3Fn";
  dequantize.operands = {input("source", Content::value, DType::e4m3), output("target"),
                         quantize.operands[2]};
  dequantize.fills = {Fill::patterns, Fill::zero};
  dequantize.one_result = "it multiplies once";
  dequantize.reference = run_dequantize<e4m3>(reference::block_dequantize_e4m3);
  dequantize.host = run_dequantize<e4m3>(cuda::host::block_dequantize_e4m3);
  dequantize.device = run_dequantize<e4m3>(on_device<cuda::device::block_dequantize_e4m3>);

  Op back = dequantize;
  back.name = "block_dequantize_e5m2";
  back.type = "BlockDequantizeE5m2Fn";
  back.operands[0] = input("source", Content::value, DType::e5m2);
  back.reference = run_dequantize<e5m2>(reference::block_dequantize_e5m2);
  back.host = run_dequantize<e5m2>(cuda::host::block_dequantize_e5m2);
  back.device = run_dequantize<e5m2>(on_device<cuda::device::block_dequantize_e5m2>);
  return {amax, quantize, five, dequantize, back};
}

}  // namespace zeroproof::verification
