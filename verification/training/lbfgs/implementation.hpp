#pragma once
// The two implementations of L-BFGS, each with the operations of its closure.

#include <string_view>

#include "common/contracts/grad_scale.hpp"
#include "common/contracts/grad_sum.hpp"
#include "common/contracts/lbfgs.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof::verification {

struct LbfgsImplementation {
  std::string_view name;
  MakeLbfgsFn* make = nullptr;
  MeanLossFn* mean_loss = nullptr;
  GradSumFn* grad_sum = nullptr;
  StepScalarsFn* step_scalars = nullptr;
  UnscaleFn* unscale = nullptr;
};

const LbfgsImplementation& reference_lbfgs();
const LbfgsImplementation& production_lbfgs();

}  // namespace zeroproof::verification
