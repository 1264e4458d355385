// Casts of the device implementations against the reference. Skipped without a usable device;
// tests/cuda/device/sim runs this file on the simulated device.

#include <doctest.h>

#include "cuda/device/operations.hpp"
#include "tests/cuda/formats/formats_support.hpp"
#include "verification/ops/on_device.hpp"

namespace device_cast_test {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;
namespace ref = zeroproof::reference;

TEST_CASE("device: casts, and exponents of scales") {
  if (!usable()) return;
  check_format(on_device<device::cast_to_bf16>, on_device<device::widen_bf16>, ref::cast_to_bf16,
               ref::widen_bf16, exec);
  check_format(on_device<device::cast_to_fp16>, on_device<device::widen_fp16>, ref::cast_to_fp16,
               ref::widen_fp16, exec);
  check_format(on_device<device::cast_to_e4m3>, on_device<device::widen_e4m3>, ref::cast_to_e4m3,
               ref::widen_e4m3, exec);
  check_format(on_device<device::cast_to_e5m2>, on_device<device::widen_e5m2>, ref::cast_to_e5m2,
               ref::widen_e5m2, exec);
  check_cast(on_device<device::nonfinite_cast_to_e4m3>, ref::nonfinite_cast_to_e4m3, exec);
  check_cast(on_device<device::nonfinite_cast_to_e5m2>, ref::nonfinite_cast_to_e5m2, exec);
  check_cast(on_device<device::cast_to_e8m0>, ref::cast_to_e8m0, exec);
  check_cast(on_device<device::widen_e8m0>, ref::widen_e8m0, exec);
  check_stochastic(on_device<device::stochastic_cast_to_bf16>, exec);
}

}  // namespace device_cast_test
