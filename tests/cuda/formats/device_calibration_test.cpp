// Device implementations of calibration and fake quantization against numbers by hand; tests/cuda/device/sim runs this file on the
// simulated device.

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

TEST_CASE("device: errors of values in several pieces, which end inside of rows and blocks") {
  if (!usable()) return;
  const FakeQuantization options{{50, 7, 3, 2}, FakeFormat::integer, 4};
  std::vector<float> values;
  for (int i = 10; i < 50 * 7; ++i) values.push_back(0.11F * static_cast<float>(i * 7 % 61 - 30));
  const auto num_blocks = static_cast<std::size_t>(options.grid.num_blocks());
  const std::vector<std::uint32_t> amax = amax_bits(std::vector<float>(num_blocks, 3.0F));
  std::vector<NormLimbs> whole(num_blocks * num_clips), in_pieces = whole;
  on_device<device::clip_errors>(exec, options, 10, values, amax, whole);
  on_device<errors_in_pieces>(exec, options, 10, values, amax, in_pieces);
  CHECK(in_pieces == whole);
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
