#include "verification/training/gradients/model_params.hpp"

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"

namespace zeroproof::verification {

GuardedBuffer model_params(const FlatLayout& layout, const TensorBlocks& blocks,
                           const TensorView& codes, const TensorView& scale_inv) {
  ZP_CHECK(codes.numel == layout.padded_numel() && scale_inv.numel == blocks.num_blocks() &&
               scale_inv.dtype == DType::fp32,
           ErrorCode::internal,
           "an optimizer shows " + std::to_string(codes.numel) + " codes and " +
               std::to_string(scale_inv.numel) + " scales",
           "the model reads " + std::to_string(layout.padded_numel()) + " codes in " +
               std::to_string(blocks.num_blocks()) + " blocks (R24)",
           "expose param_scale_inv of all blocks in the phase cast");
  GuardedBuffer values(codes.numel, DType::fp32);
  const Span<float> value = values.as<float>();
  const auto* inverse = static_cast<const float*>(scale_inv.data);
  const auto* bits = static_cast<const std::uint8_t*>(codes.data);
  for (const Piece& piece : layout.pieces({{0, layout.padded_numel()}})) {
    for (std::int64_t i = 0; i < piece.numel; ++i) {
      const std::int64_t at = piece.global_begin + i;
      const float widened =
          codes.dtype == DType::e4m3 ? to_float(e4m3{bits[at]}) : to_float(e5m2{bits[at]});
      value[at] = widened * inverse[blocks.block_of(piece.tensor, i)];
    }
  }
  return values;
}

}  // namespace zeroproof::verification
