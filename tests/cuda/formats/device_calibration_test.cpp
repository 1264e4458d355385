// Device implementations of calibration and fake quantization against numbers by hand; tests/cuda/device/sim runs this file on the
// simulated device.

#include <doctest.h>

#include "cuda/device/operations.hpp"
#include "tests/cuda/formats/calibration_support.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;

TEST_CASE("device: fake quantization by hand, and its errors") {
  if (!usable()) return;
  check_fake_quantize_by_hand(on_device<device::fake_quantize>, on_device<device::quantize_integer>,
                              exec);
  check_fake_quantize_refusals(on_device<device::fake_quantize>,
                               on_device<device::quantize_integer>, exec);
}

TEST_CASE("device: bins by hand") {
  if (!usable()) return;
  check_histogram_by_hand(on_device<device::histogram_count>, on_device<device::histogram_widen>,
                          exec);
}

TEST_CASE("device: choices by counts and by errors, by hand") {
  if (!usable()) return;
  check_exponent_by_hand(device::histogram_exponent);
  check_amax_of_counts_by_hand(on_device<device::percentile_amax>, on_device<device::entropy_amax>,
                               exec);
  check_clips_by_hand(on_device<device::clip_errors>, on_device<device::clip_of_errors>,
                      device::grad_norm_finish, exec);
  check_smooth_by_hand(on_device<device::smooth_scales>, exec);
}
