#pragma once

#include "common/contracts/block_scale.hpp"

namespace zeroproof::cuda::device {

BlockAmaxFn block_amax;
BlockQuantizeE4m3Fn block_quantize_e4m3;
BlockQuantizeE5m2Fn block_quantize_e5m2;
BlockDequantizeE4m3Fn block_dequantize_e4m3;
BlockDequantizeE5m2Fn block_dequantize_e5m2;

}  // namespace zeroproof::cuda::device
