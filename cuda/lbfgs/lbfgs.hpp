#pragma once

#include "common/contracts/lbfgs.hpp"

namespace zeroproof::cuda {

MeanLossFn mean_loss;
MakeLbfgsFn make_lbfgs;

}  // namespace zeroproof::cuda
