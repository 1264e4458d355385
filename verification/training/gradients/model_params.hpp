#pragma once
// The model's view of parameters in 8 bits, implemented independently of both optimizers.

#include "common/base/guarded_buffer.hpp"
#include "common/layout/tensor_blocks.hpp"

namespace zeroproof::verification {

/// Codes times the scale_inv of their blocks (R24), in fp32; padding is NaN.
///
/// Shapes   codes: [padded_numel] of the layout, e4m3 or e5m2; scale_inv: [num_blocks] fp32. blocks: of the layout.
GuardedBuffer model_params(const FlatLayout& layout, const TensorBlocks& blocks,
                           const TensorView& codes, const TensorView& scale_inv);

}  // namespace zeroproof::verification
