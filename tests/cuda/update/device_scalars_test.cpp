#include <doctest.h>

#include "cuda/device/operations.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "tests/cuda/update/scalars_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
namespace device = zeroproof::cuda::device;

TEST_CASE("device: step scalars, loss scaler, finished norms and the clip coefficient") {
  if (!device_test::usable()) return;
  check_step_scalars(device::step_scalars);
  check_loss_scaler(device::loss_scaler_update);
  check_finished_norms({device::step_scalars, device::loss_scaler_update,
                        device::grad_norm_normalise, device::grad_norm_finish,
                        device::grad_abs_finish, device::grad_max_finish, device::clip_coef});
}
