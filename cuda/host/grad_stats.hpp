#pragma once

#include "common/contracts/grad_stats.hpp"

namespace zeroproof::cuda::host {

GradStatsFn grad_stats;

}  // namespace zeroproof::cuda::host
