// Calibration and fake quantization of the device implementations against the reference;
// tests/cuda/device/sim runs this file on the simulated device.

#include <doctest.h>

#include "cuda/device/kernels/gradients/norm_pieces.hpp"
#include "cuda/device/operations.hpp"
#include "tests/cuda/formats/calibration_support.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;

namespace {

void errors_in_pieces(const Exec& /*exec*/, const FakeQuantization& options, std::int64_t first,
                      Span<const float> values, Span<const std::uint32_t> amax,
                      Span<NormLimbs> errors) {
  device::clip_errors_in_pieces(48, options, first, values, amax, errors);
}

}  // namespace

TEST_CASE("device: calibration and fake quantization, and their errors") {
  if (!usable()) return;
  const CalibrationImplementations implementations{
      on_device<device::fake_quantize>,   on_device<device::quantize_integer>,
      on_device<device::histogram_count>, on_device<device::histogram_widen>,
      device::histogram_exponent,         on_device<device::percentile_amax>,
      on_device<device::entropy_amax>,    on_device<device::clip_errors>,
      on_device<device::clip_of_errors>,  on_device<device::smooth_scales>};
  check_calibration(implementations, {exec});
  check_many_values(implementations, exec);
  check_calibration_refused(implementations, exec);
}

TEST_CASE("device: errors of values in several pieces, which end inside of rows and blocks") {
  if (!usable()) return;
  const FakeQuantization options{{50, 7, 3, 2}, FakeFormat::integer, 4};
  std::vector<float> values;
  for (int i = 10; i < 50 * 7; ++i) values.push_back(0.11F * static_cast<float>(i * 7 % 61 - 30));
  const auto num_blocks = static_cast<std::size_t>(options.grid.num_blocks());
  const std::vector<std::uint32_t> amax(num_blocks, std::bit_cast<std::uint32_t>(3.0F));
  std::vector<NormLimbs> whole(num_blocks * num_clips), in_pieces = whole;
  on_device<device::clip_errors>(exec, options, 10, values, amax, whole);
  on_device<errors_in_pieces>(exec, options, 10, values, amax, in_pieces);
  CHECK(in_pieces == whole);
}
