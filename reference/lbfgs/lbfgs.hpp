#pragma once

#include "common/contracts/lbfgs.hpp"

namespace zeroproof::reference {

MeanLossFn mean_loss;
MakeLbfgsFn make_lbfgs;

}  // namespace zeroproof::reference
