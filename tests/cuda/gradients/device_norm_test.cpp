// Device norms against the reference: odd sizes, every alignment, values that are not finite,
// initial limbs with carries. Skipped without a usable device; tests/cuda/device/sim runs the same
// file on the simulated device.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cuda/device/kernels/gradients/norm_pieces.hpp"
#include "cuda/device/operations.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/device_place.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

namespace device_norm_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Each limb but the last has the largest value after 2^32 - 1 deposits.
NormLimbs limbs_with_carries() {
  NormLimbs limbs;
  for (std::size_t i = 0; i + 1 < limbs.limbs.size(); ++i) limbs.limbs[i] = 0xFFFFFFFE00000001ULL;
  limbs.nan_count = 2;
  limbs.inf_count = 3;
  return limbs;
}

void check_norm(GradNormAccumulateFn* implementation, GradNormAccumulateFn* expected,
                const Place<float>& grad) {
  for (const NormLimbs& start : {NormLimbs{}, limbs_with_carries()}) {
    NormLimbs actual = start, want = start;
    implementation(exec, grad.span(), actual);
    expected({}, grad.span(), want);
    reference::grad_norm_normalise(actual);
    reference::grad_norm_normalise(want);
    CHECK(actual == want);
  }
}

void squares_in_pieces(const Exec& /*exec*/, Span<const float> grad, NormLimbs& limbs) {
  device::grad_norm_exact_in_pieces(4096, grad, limbs);
}
void magnitudes_in_pieces(const Exec& /*exec*/, Span<const float> grad, NormLimbs& limbs) {
  device::grad_abs_in_pieces(4096, grad, limbs);
}

void check_norms(const Place<float>& grad) {
  check_norm(on_device<device::grad_norm_accumulate>, reference::grad_norm_accumulate, grad);
  check_norm(on_device<device::grad_norm_exact_accumulate>, reference::grad_norm_exact_accumulate,
             grad);
  check_norm(on_device<squares_in_pieces>, reference::grad_norm_exact_accumulate, grad);
  check_norm(on_device<magnitudes_in_pieces>, reference::grad_abs_accumulate, grad);
  check_norm(on_device<device::grad_abs_accumulate>, reference::grad_abs_accumulate, grad);
}

void check_max(Span<const float> grad, std::uint32_t start) {
  std::uint32_t amax = start, want = start;
  on_device<device::grad_max_accumulate>(exec, grad, amax);
  reference::grad_max_accumulate({}, grad, want);
  CHECK(amax == want);
}

/// Within the bound of the contract of a sum in extended precision.
void check_p(Span<const float> grad, double p) {
  CAPTURE(p);
  long double sum = 0;
  std::uint32_t largest = 0;
  reference::grad_max_accumulate({}, grad, largest);
  const double amax = reference::grad_max_finish(largest);
  for (const float x : grad)
    sum += std::pow(std::fabs(static_cast<long double>(x)) / amax, static_cast<long double>(p));
  const long double expected = amax * std::pow(sum, 1 / static_cast<long double>(p));
  const double actual = on_device<device::grad_norm_p>(exec, grad, p);
  const double bound = 1.01 * ((static_cast<double>(grad.size()) + 50) / p + 8) * 0x1p-53;
  CHECK(std::isfinite(actual));
  CHECK(std::fabs(actual - expected) <= bound * expected);
  CHECK(on_device<device::grad_norm_p>(exec, grad, p) == actual);
}

}  // namespace

TEST_CASE("device: norm limbs and counts") {
  if (!usable()) return;
  for_each_layout([](std::int64_t numel, const int* offset) {
    Place<float> grad(numel, offset[0]);
    fill_finite(grad.span(), 7);
    check_norms(grad);
    for (std::int64_t i = 0; i < numel; i += 5000) grad.span()[i] = i % 2 == 0 ? inf : -inf;
    for (std::int64_t i = 900; i < numel; i += 9000) grad.span()[i] = -not_a_number;
    check_norms(grad);
  });
}

TEST_CASE("device: exact norms of values of one size, and of the smallest and the largest") {
  if (!usable()) return;
  for (const float x : {0x1p-149F, -0x1.FFFFFCp-127F, 1.5F, -0x1.fffffep127F, 0.0F, -0.0F}) {
    CAPTURE(x);
    Place<float> grad(3001, 1);
    for (float& g : grad.span()) g = x;
    check_norms(grad);
  }
}

TEST_CASE("device: the largest magnitude as an integer") {
  if (!usable()) return;
  for_each_layout([](std::int64_t numel, const int* offset) {
    Place<float> grad(numel, offset[0]);
    fill_finite(grad.span(), 8);
    for (const std::uint32_t start : {0U, 1U, 0x3F000000U, 0x7F800000U, 0x7FFFFFFFU})
      check_max(grad.span(), start);
    for (const std::int64_t at : {std::int64_t{0}, numel / 2, numel - 1}) {
      if (at < 0 || at >= numel) continue;
      for (const float x : {-std::numeric_limits<float>::max(), -inf, -not_a_number}) {
        grad.span()[at] = x;
        check_max(grad.span(), 0);
      }
      grad.span()[at] = 1.0F;
    }
  });
}

TEST_CASE("device: the p-norm stays within its bound") {
  if (!usable()) return;
  for (const std::int64_t numel : {1, 2, 255, 257, 4097, 20000}) {
    CAPTURE(numel);
    std::vector<float> grad(numel);
    for (std::size_t i = 0; i < grad.size(); ++i)
      grad[i] = (static_cast<float>(hash(i, 9) >> 8) - 0x1p23F) * 0x1p-24F;
    for (const double p : {0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 7.25, 100.0, 1e300}) check_p(grad, p);
    for (float& x : grad)
      x = x * 0x1p-130F;  // powers of these underflow unless the largest is factored out first
    for (const double p : {0.5, 3.0, 10.0}) check_p(grad, p);
    for (float& x : grad)
      x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) % 0x800000 + 0x7E800000);
    for (const double p : {0.5, 3.0, 10.0}) check_p(grad, p);
  }
}

TEST_CASE("device: the p-norm of no elements, of zeros and of values that are not finite") {
  if (!usable()) return;
  std::vector<float> grad;
  const auto is_plus_zero = [&] {
    return std::bit_cast<std::uint64_t>(on_device<device::grad_norm_p>(exec, grad, 3.0)) == 0;
  };
  CHECK(is_plus_zero());
  grad.assign(300, -0.0F);
  CHECK(is_plus_zero());
  grad[299] = -inf;
  CHECK(on_device<device::grad_norm_p>(exec, grad, 3.0) == std::numeric_limits<double>::infinity());
  grad[0] = -not_a_number;
  CHECK(std::isnan(on_device<device::grad_norm_p>(exec, grad, 3.0)));
}

}  // namespace device_norm_test
