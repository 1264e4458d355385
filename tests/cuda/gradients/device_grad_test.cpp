// Device implementations on gradients against the contract, bit for bit: odd sizes, every alignment, special values,
// one buffer as input and output. Skipped without a usable device; tests/cuda/device/sim runs the
// same file on the simulated device.

#include <doctest.h>

#include <cmath>
#include <limits>

#include "cuda/device/operations.hpp"
#include "tests/cuda/device_expected.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

namespace device_grad_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;

constexpr float inf = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("device: two nodes are added with one rounding, also into one of them") {
  if (!usable()) return;
  for_each_layout([](std::int64_t numel, const int* offset) {
    for (const int target : {0, 1, 2}) {  // destination of the sum: left, right, a separate buffer
      Place<float> left(numel, offset[0]), right(numel, offset[1]), other(numel, offset[2]);
      fill(left.span(), 1);
      fill(right.span(), 2);
      const Place<float> a = left, b = right;
      Place<float>& sum = target == 0 ? left : target == 1 ? right : other;
      on_device<device::add_nodes>(exec, left.span(), right.span(), sum.span());
      sum.check([&](std::int64_t i) { return expected_sum(a[i], b[i]); });
    }
  });
}

TEST_CASE("device: unscale and clip are one product each, also in place") {
  if (!usable()) return;
  for (const float factor : {1.0F, 0.0F, 0x1p-16F, 0.3F, 0x1p126F, inf}) {
    CAPTURE(factor);
    for_each_layout([&](std::int64_t numel, const int* offset) {
      Place<float> source(numel, offset[0]), unscaled(numel, offset[1]), clipped(numel, offset[1]);
      fill(source.span(), 5);
      const Place<float> old = source;
      const auto product = [&](std::int64_t i) { return expected_unscaled(old[i], factor); };
      const auto clipped_product = [&](std::int64_t i) { return expected_clipped(old[i], factor); };
      bool found = false;
      for (std::int64_t i = 0; i < numel; ++i) found = found || !std::isfinite(product(i));
      CHECK(on_device<device::unscale>(exec, factor, source.span(), unscaled.span()) == found);
      unscaled.check(product);
      on_device<device::clip>(exec, factor, source.span(), clipped.span());
      clipped.check(clipped_product);
      Place<float> in_place = source;
      CHECK(on_device<device::unscale>(exec, factor, in_place.span(), in_place.span()) == found);
      in_place.check(product);
      on_device<device::clip>(exec, factor, source.span(), source.span());
      source.check(clipped_product);
    });
  }
}

TEST_CASE("device: one value that is not finite is found wherever it is") {
  if (!usable()) return;
  for_each_layout([](std::int64_t numel, const int* offset) {
    Place<float> source(numel, offset[0]), target(numel, offset[1]);
    for (float& x : source.span()) x = 0x1.8p100F;
    CHECK_FALSE(on_device<device::unscale>(exec, 0x1p27F, source.span(), target.span()));
    for (const std::int64_t at : {std::int64_t{0}, numel / 2, numel - 1}) {
      if (at < 0 || at >= numel) continue;
      for (const float bad :
           {0x1p101F, -inf, std::numeric_limits<float>::quiet_NaN()}) {  // the first overflows
        source.span()[at] = bad;
        CHECK(on_device<device::unscale>(exec, 0x1p27F, source.span(), target.span()));
      }
      source.span()[at] = 1.0F;
    }
  });
}

TEST_CASE("device: values are clipped to the interval, everything inside keeps its bits") {
  if (!usable()) return;
  for (const float limit : {1.0F, 0x1p-149F, 0.3F, std::numeric_limits<float>::max()}) {
    CAPTURE(limit);
    for_each_layout([&](std::int64_t numel, const int* offset) {
      Place<float> grad(numel, offset[0]);
      fill(grad.span(), 6);
      const Place<float> old = grad;
      on_device<device::clip_value>(exec, limit, grad.span());
      grad.check([&](std::int64_t i) { return expected_clip_value(old[i], limit); });
    });
  }
}

}  // namespace device_grad_test
