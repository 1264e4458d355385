#pragma once

#include "common/contracts/clip.hpp"

namespace zeroproof::cuda::device {

ClipFn clip;
ClipValueFn clip_value;

}  // namespace zeroproof::cuda::device
