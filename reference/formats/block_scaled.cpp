#include "reference/formats/block_scaled.hpp"
#include "reference/operations.hpp"

#include <utility>

namespace zeroproof::reference {
namespace {

template <class Format>
std::vector<std::uint8_t> code_bits(const std::vector<Format>& values) {
  std::vector<std::uint8_t> bits;
  bits.reserve(values.size());
  for (const Format value : values) bits.push_back(value.bits);
  return bits;
}

template <class Format>
std::vector<Format> codes_as(const std::vector<std::uint8_t>& bits) {
  std::vector<Format> values;
  values.reserve(bits.size());
  for (const std::uint8_t code : bits) values.push_back({code});
  return values;
}

}  // namespace

BlockScales block_scales(const BlockRecipe& recipe, const std::vector<std::uint32_t>& amax) {
  BlockScales scales;
  scales.scale.resize(amax.size());
  scales.scale_inv.resize(amax.size());
  if (!recipe.mxfp8) {
    current_scales({}, recipe.current, amax, scales.scale, scales.scale_inv);
    return scales;
  }
  scales.exponents.resize(amax.size());
  mxfp8_scales({}, recipe.current.format, amax, scales.exponents, scales.scale);
  widen_e8m0({}, scales.exponents, scales.scale_inv);
  return scales;
}

std::vector<std::uint8_t> quantized_part(const BlockQuantization& options, Fp8 format,
                                         std::int64_t first, Span<const float> values,
                                         Span<const float> scale) {
  if (format == Fp8::e4m3) {
    std::vector<e4m3> codes(values.size());
    block_quantize_e4m3({}, options, first, values, scale, codes);
    return code_bits(codes);
  }
  std::vector<e5m2> codes(values.size());
  block_quantize_e5m2({}, options, first, values, scale, codes);
  return code_bits(codes);
}

BlockScaled quantized(const BlockQuantization& options, const BlockRecipe& recipe,
                      Span<const float> values) {
  std::vector<std::uint32_t> amax(
      options.grid.is_legal() ? static_cast<std::size_t>(options.grid.num_blocks()) : 0);
  block_amax({}, options.grid, options.value, 0, values, amax);
  BlockScales scales = block_scales(recipe, amax);
  BlockScaled tensor{options.grid, recipe.current.format, {}, {}, {}};
  tensor.codes = quantized_part(options, tensor.format, 0, values, scales.scale);
  tensor.scale_inv = std::move(scales.scale_inv);
  tensor.exponents = std::move(scales.exponents);
  return tensor;
}

std::vector<float> dequantized(const BlockScaled& tensor) {
  std::vector<float> values(tensor.codes.size());
  if (tensor.format == Fp8::e4m3) {
    block_dequantize_e4m3({}, tensor.grid, 0, codes_as<e4m3>(tensor.codes), tensor.scale_inv,
                          values);
  } else {
    block_dequantize_e5m2({}, tensor.grid, 0, codes_as<e5m2>(tensor.codes), tensor.scale_inv,
                          values);
  }
  return values;
}

}  // namespace zeroproof::reference
