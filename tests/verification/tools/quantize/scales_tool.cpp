// scales_tool: on every line of standard input a recipe of scales and numbers; prints the results. fp32 values
// are given and printed as bits, FORMAT is e4m3 or e5m2. "current FORMAT EPSILON POWER_OF_TWO a0 a1 ..": scales, then
// scale_inv, of amaxes; "mxfp8 FORMAT a0 a1 ..": codes of e8m0, then scales; "delayed FORMAT MARGIN CHOICE EMPTY SCALE
// h0 h1 ..": scale, scale_inv and the slots after the step; "blocks RECIPE FORMAT EPSILON POWER_OF_TWO ROWS COLUMNS
// BLOCK_ROWS BLOCK_COLUMNS x0 x1 ..": scale_inv of the blocks of a tensor, codes of its elements, their decoded values.

#include "common/layout/block_grid.hpp"
#include "cuda/host/operations.hpp"
#include "tests/verification/tools/quantize/tool_lines.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
namespace host = zeroproof::cuda::host;

Fp8 next_format(ToolLine& line) {
  return next<std::string>(line) == "e5m2" ? Fp8::e5m2 : Fp8::e4m3;
}

CurrentScaling next_current(ToolLine& line) {
  const Fp8 format = next_format(line);
  const float epsilon = next_float(line);
  return {format, epsilon, next<bool>(line)};
}

template <class T>
void print_codes(const std::vector<T>& codes) {
  for (const T code : codes) std::printf("%u ", static_cast<unsigned>(code.bits));
}

void current(ToolLine& line) {
  const CurrentScaling settings = next_current(line);
  const std::vector<std::uint32_t> amax = rest_of<std::uint32_t>(line);
  std::vector<float> scale(amax.size()), scale_inv(amax.size());
  host::current_scales({}, settings, amax, scale, scale_inv);
  print(scale);
  print(scale_inv);
}

void mxfp8(ToolLine& line) {
  const Fp8 format = next_format(line);
  const std::vector<std::uint32_t> amax = rest_of<std::uint32_t>(line);
  std::vector<e8m0> exponent(amax.size());
  std::vector<float> scale(amax.size());
  host::mxfp8_scales({}, format, amax, exponent, scale);
  print_codes(exponent);
  print(scale);
}

void delayed(ToolLine& line) {
  DelayedScaling options;
  options.format = next_format(line);
  options.margin = next<int>(line);
  options.choice = next<std::string>(line) == "max" ? AmaxChoice::max : AmaxChoice::most_recent;
  options.empty = next<std::string>(line) == "keep" ? EmptyAmax::keep : EmptyAmax::roll;
  float scale = next_float(line), scale_inv = 0;
  std::vector<std::uint32_t> history = rest_of<std::uint32_t>(line);
  options.history = static_cast<std::int64_t>(history.size());
  host::delayed_scales({}, options, history, {&scale, 1}, {&scale_inv, 1});
  print(std::vector<float>{scale, scale_inv});
  for (const std::uint32_t slot : history) std::printf("%u ", slot);
}

template <class Format>
void print_blocks(const BlockGrid& grid, const std::vector<float>& values,
                  const std::vector<float>& scale, const std::vector<float>& scale_inv,
                  void (*quantize)(const Exec&, const BlockQuantization&, std::int64_t,
                                   Span<const float>, Span<const float>, Span<Format>),
                  void (*dequantize)(const Exec&, const BlockGrid&, std::int64_t,
                                     Span<const Format>, Span<const float>, Span<float>)) {
  std::vector<Format> codes(values.size());
  quantize({}, {grid}, 0, values, scale, codes);
  std::vector<float> back(values.size());
  dequantize({}, grid, 0, codes, scale_inv, back);
  print(scale_inv);
  print_codes(codes);
  print(back);
}

void blocks(ToolLine& line) {
  const auto recipe = next<std::string>(line);
  const CurrentScaling settings = next_current(line);
  BlockGrid grid;
  for (std::int64_t* size : {&grid.rows, &grid.columns, &grid.block_rows, &grid.block_columns})
    *size = next<std::int64_t>(line);
  const std::vector<float> values = floats_of(line);
  const auto number = static_cast<std::size_t>(grid.num_blocks());
  std::vector<std::uint32_t> amax(number, 0);
  host::block_amax({}, grid, QuantizedValue::direct, 0, values, amax);
  std::vector<float> scale(number), scale_inv(number);
  if (recipe == "mxfp8") {
    std::vector<e8m0> exponent(number);
    host::mxfp8_scales({}, settings.format, amax, exponent, scale);
    host::widen_e8m0({}, exponent, scale_inv);
  } else {
    host::current_scales({}, settings, amax, scale, scale_inv);
  }
  if (settings.format == Fp8::e4m3)
    print_blocks<e4m3>(grid, values, scale, scale_inv, host::block_quantize_e4m3,
                       host::block_dequantize_e4m3);
  else
    print_blocks<e5m2>(grid, values, scale, scale_inv, host::block_quantize_e5m2,
                       host::block_dequantize_e5m2);
}

}  // namespace

int main() {
  return answer({{"current", current}, {"mxfp8", mxfp8}, {"delayed", delayed}, {"blocks", blocks}});
}
