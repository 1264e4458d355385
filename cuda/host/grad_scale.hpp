#pragma once

#include "common/contracts/grad_scale.hpp"

namespace zeroproof::cuda::host {

UnscaleFn unscale;

}  // namespace zeroproof::cuda::host
