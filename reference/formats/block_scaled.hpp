#pragma once
// A whole tensor in an 8-bit format with the scales of its blocks (R22).

#include <vector>

#include "common/contracts/block_scale.hpp"
#include "common/contracts/scale_recipe.hpp"

namespace zeroproof::reference {

/// The recipe for the scales of a tensor.
struct BlockRecipe {
  bool mxfp8 = false;      ///< exponents of 8 bits; otherwise fp32 by `current`
  CurrentScaling current;  ///< its format is used by both recipes
};

/// Codes, e4m3 or e5m2 by `format`, and the scales to decode them.
struct BlockScaled {
  BlockGrid grid;
  Fp8 format = Fp8::e4m3;
  std::vector<std::uint8_t> codes;  ///< [numel]
  std::vector<float> scale_inv;     ///< [num_blocks]
  std::vector<e8m0> exponents;  ///< [num_blocks] with mxfp8: scale_inv in 8 bits; otherwise empty
};

/// Scales of a tensor from the amax of its blocks, which may be joined over ranks first.
struct BlockScales {
  std::vector<float> scale, scale_inv;
  std::vector<e8m0> exponents;
};
BlockScales block_scales(const BlockRecipe& recipe, const std::vector<std::uint32_t>& amax);

/// The codes of a part of a tensor, from its element `first` on.
std::vector<std::uint8_t> quantized_part(const BlockQuantization& options, Fp8 format,
                                         std::int64_t first, Span<const float> values,
                                         Span<const float> scale);

/// amax, scales and codes of a whole tensor. Errors: those of the operations.
BlockScaled quantized(const BlockQuantization& options, const BlockRecipe& recipe,
                      Span<const float> values);

/// The decoded values.
std::vector<float> dequantized(const BlockScaled& tensor);

}  // namespace zeroproof::reference
