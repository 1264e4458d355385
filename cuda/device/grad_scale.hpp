#pragma once

#include "common/contracts/grad_scale.hpp"

namespace zeroproof::cuda::device {

UnscaleFn unscale;

}  // namespace zeroproof::cuda::device
