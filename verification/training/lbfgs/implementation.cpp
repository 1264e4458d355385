#include "verification/training/lbfgs/implementation.hpp"

#include "cuda/host/operations.hpp"
#include "cuda/lbfgs/lbfgs.hpp"
#include "reference/lbfgs/lbfgs.hpp"
#include "reference/operations.hpp"

namespace zeroproof::verification {

const LbfgsImplementation& reference_lbfgs() {
  static const LbfgsImplementation implementation = {
      "reference",         reference::make_lbfgs,   reference::mean_loss,
      reference::grad_sum, reference::step_scalars, reference::unscale};
  return implementation;
}

const LbfgsImplementation& production_lbfgs() {
  static const LbfgsImplementation implementation = {
      "production",         cuda::make_lbfgs,         cuda::mean_loss,
      cuda::host::grad_sum, cuda::host::step_scalars, cuda::host::unscale};
  return implementation;
}

}  // namespace zeroproof::verification
