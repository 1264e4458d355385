#pragma once

#include "common/contracts/grad_scale.hpp"

namespace zeroproof::reference {

UnscaleFn unscale;

}  // namespace zeroproof::reference
