// Element-wise update rules and LAMB of the device implementation against the reference: odd sizes,
// every alignment, special values in gradient and state. Skipped without a usable device;
// tests/cuda/device/sim runs the same file on the simulated device.

#include <doctest.h>

#include "cuda/device/kernels/gradients/norm_pieces.hpp"
#include "cuda/device/operations.hpp"
#include "tests/cuda/update/update_support.hpp"
#include "verification/ops/on_device.hpp"

namespace device_update_test {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;

namespace {

void norms_in_pieces(const Exec& /*exec*/, const LambOptions& options, const StepScalars& scalars,
                     Span<const float> grad, Span<const float> master, Span<const float> exp_avg,
                     Span<const float> exp_avg_sq, TrustNorms& norms) {
  device::lamb_norms_in_pieces(4096, options, scalars, grad, master, exp_avg, exp_avg_sq, norms);
}

}  // namespace

TEST_CASE("device: every update rule with every option") {
  if (!usable()) return;
  check_updates({on_device<device::adamw_update>, on_device<device::adam_update>,
                 on_device<device::sgd_update>, on_device<device::sgd_ema_update>,
                 on_device<device::lion_update>, on_device<device::lamb_update>,
                 on_device<device::lamb_norms>, device::lamb_trust_ratio},
                {exec});
}

TEST_CASE("device: norms and trust ratios of LAMB") {
  if (!usable()) return;
  check_lamb_norms(on_device<device::lamb_norms>, exec);
  check_lamb_norms(on_device<norms_in_pieces>, exec);
  check_lamb_trust_ratio(device::lamb_trust_ratio);
}

}  // namespace device_update_test
