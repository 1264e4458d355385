// Split masters and scales of the device implementations against the reference. Skipped without a
// usable device; tests/cuda/device/sim runs this file on the simulated device.

#include <doctest.h>

#include "cuda/device/operations.hpp"
#include "tests/cuda/formats/block_support.hpp"
#include "tests/cuda/formats/formats_support.hpp"
#include "verification/ops/on_device.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;

TEST_CASE("device: a master in two parts") {
  if (!usable()) return;
  check_split(on_device<device::split_master>, on_device<device::join_master>, exec);
}

TEST_CASE("device: scales of the recipes") {
  if (!usable()) return;
  const ScaleImplementations implementations{on_device<device::current_scales>,
                                             on_device<device::mxfp8_scales>,
                                             on_device<device::delayed_scales>};
  check_scales(implementations, exec);
  check_scales_refused(implementations, exec);
}

TEST_CASE("device: block scales") {
  if (!usable()) return;
  const BlockImplementations implementations = {
      on_device<device::block_amax>, on_device<device::block_quantize_e4m3>,
      on_device<device::block_quantize_e5m2>, on_device<device::block_dequantize_e4m3>,
      on_device<device::block_dequantize_e5m2>};
  check_blocks_refused(exec, implementations);
  check_blocks(exec, implementations);
}
