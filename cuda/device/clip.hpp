#pragma once

#include "common/contracts/clip.hpp"

namespace zeroproof::cuda::device {

ClipCoefFn clip_coef;
ClipFn clip;
ClipValueFn clip_value;

}  // namespace zeroproof::cuda::device
