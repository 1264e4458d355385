// Device twins against scalar code written here from the contract, bit for bit: odd sizes, every alignment,
// special values, one buffer as input and output. Skipped where no device answers.

#include <doctest.h>

#include <cstdio>
#include <functional>
#include <limits>
#include <new>
#include <vector>

#include "cuda/device/adam.hpp"
#include "cuda/device/cast.hpp"
#include "cuda/device/clip.hpp"
#include "cuda/device/device.hpp"
#include "cuda/device/grad_norm.hpp"
#include "cuda/device/grad_scale.hpp"
#include "cuda/device/grad_sum.hpp"
#include "device_expected.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::device_test;
namespace device = zeroproof::cuda::device;

const Exec exec;
constexpr float inf = std::numeric_limits<float>::infinity();

bool usable() {
  const device::DeviceInfo& info = device::device_info();
  if (!info.answers) std::printf("skipped: %s\n", info.detail.c_str());
  return info.answers;
}

/// body(numel, offsets of up to four operands). Only some of these let a kernel take 16 bytes at once.
void for_each_layout(const std::function<void(std::int64_t, const int*)>& body) {
  constexpr int offsets[][4] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3},
                                {1, 5, 1, 5}, {0, 1, 2, 3}, {3, 2, 3, 3}, {4, 0, 4, 0}};
  for (const std::int64_t numel : {0, 1, 3, 4, 5, 7, 8, 9, 1023, 1024, 1025, 70000}) {
    for (const int* layout : offsets) {
      CAPTURE(numel);
      CAPTURE(layout[0]);
      CAPTURE(layout[1]);
      body(numel, layout);
    }
  }
}

template <class Source, class Target>
void check_cast(void (*twin)(const Exec&, Span<const Source>, Span<Target>), Target (*expected)(Source)) {
  for_each_layout([&](std::int64_t numel, const int* offset) {
    Place<Source> source(numel, offset[0]);
    Place<Target> target(numel, offset[1]);
    fill(source.span(), 1);
    twin(exec, source.span(), target.span());
    target.check([&](std::int64_t i) { return expected(source[i]); });
  });
}

/// All 65536 patterns of the format.
template <class Source>
void check_widen_all(void (*twin)(const Exec&, Span<const Source>, Span<float>), float (*expected)(Source)) {
  Place<Source> source(65536, 0);
  Place<float> target(65536, 0);
  for (std::uint32_t i = 0; i < 65536; ++i) source.span()[i].bits = static_cast<std::uint16_t>(i);
  twin(exec, source.span(), target.span());
  target.check([&](std::int64_t i) { return expected(source[i]); });
}

StepScalars scalars(std::uint32_t has_decay, float step_size) {
  return {0.25F, 0.9F, 0.1F, 0.999F, 0.001F, 0.0316F, step_size, 1e-8F, 1e-5F, has_decay};
}

void check_adamw(const StepScalars& s) {
  for_each_layout([&](std::int64_t numel, const int* offset) {
    Place<float> grad(numel, offset[0]), master(numel, offset[1]), m(numel, offset[2]), v(numel, offset[3]);
    fill(grad.span(), 1);
    fill(master.span(), 2);
    fill(m.span(), 3);
    fill(v.span(), 4);  // negative second moments too: the square root is then NaN
    const Place<float> old_master = master, old_m = m, old_v = v;
    device::adamw_update(exec, s, grad.span(), master.span(), m.span(), v.span());
    const auto next = [&](std::int64_t i) {
      return expected_adamw(s, grad[i], old_master[i], old_m[i], old_v[i]);
    };
    master.check([&](std::int64_t i) { return next(i).master; });
    m.check([&](std::int64_t i) { return next(i).exp_avg; });
    v.check([&](std::int64_t i) { return next(i).exp_avg_sq; });
  });
}

NormLimbs limbs_with_something() {
  NormLimbs limbs;
  for (std::size_t i = 0; i < limbs.limbs.size(); ++i) limbs.limbs[i] = 0xFFFFFFFF00ULL + i;
  limbs.nan_count = 2;
  limbs.inf_count = 3;
  return limbs;
}

void check_norm(const Place<float>& grad, std::int64_t numel) {
  NormLimbs actual = limbs_with_something();
  NormLimbs expected = actual;
  device::grad_norm_accumulate(exec, grad.span(), actual);
  for (std::int64_t first = 0; first < numel; first += 1024) {
    expected_deposit(expected_chunk(grad, first, numel), expected);
  }
  normalise(actual);
  normalise(expected);
  CHECK(actual == expected);
}

}  // namespace

TEST_CASE("device: casts round to nearest even") {
  if (!usable()) return;
  check_cast<float, bf16>(device::cast_to_bf16, expected_narrow<bf16>);
  check_cast<float, fp16>(device::cast_to_fp16, expected_narrow<fp16>);
}

TEST_CASE("device: widening is exact") {
  if (!usable()) return;
  check_cast<bf16, float>(device::widen_bf16, expected_widen<bf16>);
  check_cast<fp16, float>(device::widen_fp16, expected_widen<fp16>);
  check_widen_all<bf16>(device::widen_bf16, expected_widen<bf16>);
  check_widen_all<fp16>(device::widen_fp16, expected_widen<fp16>);
}

TEST_CASE("device: two nodes are added with one rounding, also into one of them") {
  if (!usable()) return;
  for_each_layout([](std::int64_t numel, const int* offset) {
    for (const int target : {0, 1, 2}) {  // the sum goes over left, over right, to a buffer of its own
      Place<float> left(numel, offset[0]), right(numel, offset[1]), other(numel, offset[2]);
      fill(left.span(), 1);
      fill(right.span(), 2);
      const Place<float> a = left, b = right;
      Place<float>& sum = target == 0 ? left : target == 1 ? right : other;
      device::add_nodes(exec, left.span(), right.span(), sum.span());
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
      const auto product = [&](std::int64_t i) { return expected_product(old[i], factor); };
      bool found = false;
      for (std::int64_t i = 0; i < numel; ++i) found = found || !std::isfinite(product(i));
      CHECK(device::unscale(exec, factor, source.span(), unscaled.span()) == found);
      unscaled.check(product);
      device::clip(exec, factor, source.span(), clipped.span());
      clipped.check(product);
      Place<float> in_place = source;
      CHECK(device::unscale(exec, factor, in_place.span(), in_place.span()) == found);
      in_place.check(product);
      device::clip(exec, factor, source.span(), source.span());
      source.check(product);
    });
  }
}

TEST_CASE("device: one value that is not finite is found wherever it is") {
  if (!usable()) return;
  for_each_layout([](std::int64_t numel, const int* offset) {
    Place<float> source(numel, offset[0]), target(numel, offset[1]);
    for (float& x : source.span()) x = 0x1.8p100F;
    CHECK_FALSE(device::unscale(exec, 0x1p27F, source.span(), target.span()));
    for (const std::int64_t at : {std::int64_t{0}, numel / 2, numel - 1}) {
      if (at < 0 || at >= numel) continue;
      for (const float bad :
           {0x1p101F, -inf, std::numeric_limits<float>::quiet_NaN()}) {  // the first overflows
        source.span()[static_cast<std::size_t>(at)] = bad;
        CHECK(device::unscale(exec, 0x1p27F, source.span(), target.span()));
      }
      source.span()[static_cast<std::size_t>(at)] = 1.0F;
    }
  });
}

TEST_CASE("device: norm limbs and counts") {
  if (!usable()) return;
  for_each_layout([](std::int64_t numel, const int* offset) {
    Place<float> grad(numel, offset[0]);
    fill_finite(grad.span(), 7);
    check_norm(grad, numel);
    for (std::int64_t i = 0; i < numel; i += 5000)
      grad.span()[static_cast<std::size_t>(i)] = i % 2 == 0 ? inf : -inf;
    for (std::int64_t i = 900; i < numel; i += 9000) {
      grad.span()[static_cast<std::size_t>(i)] = -std::numeric_limits<float>::quiet_NaN();
    }
    check_norm(grad, numel);
  });
}

TEST_CASE("device: adamw") {
  if (!usable()) return;
  check_adamw(scalars(1, 1e-3F));
  check_adamw(scalars(0, 1e-3F));
  check_adamw(scalars(1, 0.0F));
  check_adamw(scalars(0, inf));
}

TEST_CASE("slow: device: more than 2^31 elements") {
  if (!usable()) return;
  constexpr std::int64_t numel = (std::int64_t{1} << 31) + 1029;
  std::vector<float> grad;
  try {
    grad.assign(numel, 0x1p100F);
  } catch (const std::bad_alloc&) {
    std::printf("skipped: 8.6 GB of host memory are needed\n");
    return;
  }
  NormLimbs actual;
  NormLimbs expected;
  device::grad_norm_accumulate(exec, grad, actual);
  expected_deposit(0x1p210, expected);
  for (auto& limb : expected.limbs) limb *= numel / 1024;
  expected_deposit(5 * 0x1p200, expected);  // the last chunk is short
  normalise(actual);
  normalise(expected);
  CHECK(actual == expected);
  CHECK_FALSE(device::unscale(exec, 0.5F, grad, grad));
  bool halved = true;
  for (const float g : grad) halved = halved && g == 0x1p99F;
  CHECK(halved);
  grad.back() = inf;
  CHECK(device::unscale(exec, 0.5F, grad, grad));
}
