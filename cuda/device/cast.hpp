#pragma once

#include "common/contracts/cast.hpp"

namespace zeroproof::cuda::device {

CastToBf16Fn cast_to_bf16;
CastToFp16Fn cast_to_fp16;
CastToE4m3Fn cast_to_e4m3;
CastToE5m2Fn cast_to_e5m2;
NonfiniteCastToE4m3Fn nonfinite_cast_to_e4m3;
NonfiniteCastToE5m2Fn nonfinite_cast_to_e5m2;
CastToE8m0Fn cast_to_e8m0;
WidenBf16Fn widen_bf16;
WidenFp16Fn widen_fp16;
WidenE4m3Fn widen_e4m3;
WidenE5m2Fn widen_e5m2;
WidenE8m0Fn widen_e8m0;
StochasticCastToBf16Fn stochastic_cast_to_bf16;

}  // namespace zeroproof::cuda::device
