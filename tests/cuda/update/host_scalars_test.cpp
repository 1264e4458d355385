#include <doctest.h>

#include "cuda/host/operations.hpp"
#include "tests/cuda/update/scalars_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

TEST_CASE("host: step scalars, loss scaler, finished norms and the clip coefficient") {
  check_step_scalars(host::step_scalars);
  check_loss_scaler(host::loss_scaler_update);
  check_finished_norms({host::step_scalars, host::loss_scaler_update, host::grad_norm_normalise,
                        host::grad_norm_finish, host::grad_abs_finish, host::grad_max_finish,
                        host::clip_coef});
}
