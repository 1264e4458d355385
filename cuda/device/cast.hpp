#pragma once

#include "common/contracts/cast.hpp"

namespace zeroproof::cuda::device {

CastToBf16Fn cast_to_bf16;
CastToFp16Fn cast_to_fp16;
WidenBf16Fn widen_bf16;
WidenFp16Fn widen_fp16;

}  // namespace zeroproof::cuda::device
