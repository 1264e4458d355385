#include "verification/training/lbfgs/twin.hpp"

#include "cuda/host/operations.hpp"
#include "cuda/lbfgs/lbfgs.hpp"
#include "reference/lbfgs/lbfgs.hpp"
#include "reference/operations.hpp"

namespace zeroproof::verification {

const LbfgsTwin& reference_lbfgs() {
  static const LbfgsTwin twin = {"reference",         reference::make_lbfgs,   reference::mean_loss,
                                 reference::grad_sum, reference::step_scalars, reference::unscale};
  return twin;
}

const LbfgsTwin& production_lbfgs() {
  static const LbfgsTwin twin = {"production",         cuda::make_lbfgs,         cuda::mean_loss,
                                 cuda::host::grad_sum, cuda::host::step_scalars, cuda::host::unscale};
  return twin;
}

}  // namespace zeroproof::verification
