#pragma once

#include "common/contracts/grad_stats.hpp"

namespace zeroproof::reference {

GradStatsFn grad_stats;

}  // namespace zeroproof::reference
