// Device implementations on gradients against the reference: odd sizes, every alignment, special
// values, one buffer as input and output. Skipped without a usable device; tests/cuda/device/sim
// runs the same file on the simulated device.

#include <doctest.h>

#include <cmath>
#include <limits>

#include "cuda/device/operations.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/device_place.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

namespace device_grad_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;

constexpr float inf = std::numeric_limits<float>::infinity();

void check_same(const Place<float>& got, const Place<float>& want) {
  got.check([&](std::int64_t i) { return want[i]; });
}

}  // namespace

TEST_CASE("device: two nodes are added with one rounding, also into one of them") {
  if (!usable()) return;
  for_each_layout([](std::int64_t numel, const int* offset) {
    for (const int target : {0, 1, 2}) {  // destination of the sum: left, right, a separate buffer
      Place<float> left(numel, offset[0]), right(numel, offset[1]), other(numel, offset[2]);
      fill(left.span(), 1);
      fill(right.span(), 2);
      Place<float> want(numel, 0);
      reference::add_nodes({}, left.span(), right.span(), want.span());
      Place<float>& sum = target == 0 ? left : target == 1 ? right : other;
      on_device<device::add_nodes>(exec, left.span(), right.span(), sum.span());
      check_same(sum, want);
    }
  });
}

TEST_CASE("device: unscale and clip, also in place") {
  if (!usable()) return;
  for (const float factor : {1.0F, 0.0F, 0x1p-16F, 0.3F, 0x1p126F, inf}) {
    CAPTURE(factor);
    for_each_layout([&](std::int64_t numel, const int* offset) {
      Place<float> source(numel, offset[0]), unscaled(numel, offset[1]), clipped(numel, offset[1]);
      fill(source.span(), 5);
      Place<float> product(numel, 0), clipped_product(numel, 0), in_place = source;
      const bool found = reference::unscale({}, factor, source.span(), product.span());
      reference::clip({}, factor, source.span(), clipped_product.span());
      CHECK(on_device<device::unscale>(exec, factor, source.span(), unscaled.span()) == found);
      check_same(unscaled, product);
      on_device<device::clip>(exec, factor, source.span(), clipped.span());
      check_same(clipped, clipped_product);
      CHECK(on_device<device::unscale>(exec, factor, in_place.span(), in_place.span()) == found);
      check_same(in_place, product);
      on_device<device::clip>(exec, factor, source.span(), source.span());
      check_same(source, clipped_product);
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

TEST_CASE("device: values are clipped to the interval") {
  if (!usable()) return;
  for (const float limit : {1.0F, 0x1p-149F, 0.3F, std::numeric_limits<float>::max()}) {
    CAPTURE(limit);
    for_each_layout([&](std::int64_t numel, const int* offset) {
      Place<float> grad(numel, offset[0]);
      fill(grad.span(), 6);
      Place<float> want = grad;
      reference::clip_value({}, limit, want.span());
      on_device<device::clip_value>(exec, limit, grad.span());
      check_same(grad, want);
    });
  }
}

}  // namespace device_grad_test
