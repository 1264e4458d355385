#pragma once

#include "common/contracts/clip.hpp"

namespace zeroproof::cuda::device {

ClipFn clip;

}  // namespace zeroproof::cuda::device
