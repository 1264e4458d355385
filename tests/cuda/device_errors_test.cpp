// Errors of device implementations that cannot run, also in a program without device code.

#include <doctest.h>

#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/operations.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/host/update_operations.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/support/skip.hpp"

namespace device_errors_test {

namespace {

using namespace zeroproof;
using tests::expect_error;
namespace device = zeroproof::cuda::device;

const Exec exec;

bool built() {
  if (!device::device_info().built) tests::skip_case("this build has no device code");
  return device::device_info().built;
}

/// Every device implementation with two operands or more; operand number `odd` has b elements, all others a.
void expect_error_of_every_implementation(ErrorCode code, std::size_t a, std::size_t b,
                                          std::size_t odd) {
  const auto buffer = [&](std::size_t operand) {
    return std::vector<float>(operand == odd ? b : a);
  };
  std::vector<float> x = buffer(0), y = buffer(1), z = buffer(2), w = buffer(3), v = buffer(4);
  const std::size_t second = y.size();
  std::vector<bf16> brain(second);
  std::vector<fp16> half(second);
  std::vector<e4m3> four(second);
  std::vector<e5m2> five(second);
  std::vector<e8m0> eight(second);
  std::vector<std::uint32_t> amax(second);
  std::vector<std::uint16_t> rest(second);
  const BlockGrid row = one_block(1, static_cast<std::int64_t>(a));
  const std::vector<float> one(a > 0 ? 1 : 0, 1.0F);
  const StepScalars scalars{};
  const Span<float> none;
  if (odd < 2) {
    expect_error(code, [&] { device::cast_to_bf16(exec, x, brain); });
    expect_error(code, [&] { device::cast_to_fp16(exec, x, half); });
    expect_error(code, [&] { device::cast_to_e4m3(exec, x, four); });
    expect_error(code, [&] { device::cast_to_e5m2(exec, x, five); });
    expect_error(code, [&] { device::stochastic_cast_to_bf16(exec, {}, x, brain); });
    expect_error(code, [&] { device::widen_bf16(exec, brain, x); });
    expect_error(code, [&] { device::widen_fp16(exec, half, x); });
    expect_error(code, [&] { device::widen_e4m3(exec, four, x); });
    expect_error(code, [&] { device::widen_e5m2(exec, five, x); });
    expect_error(code, [&] { device::nonfinite_cast_to_e4m3(exec, x, four); });
    expect_error(code, [&] { device::nonfinite_cast_to_e5m2(exec, x, five); });
    expect_error(code, [&] { device::cast_to_e8m0(exec, x, eight); });
    expect_error(code, [&] { device::widen_e8m0(exec, eight, x); });
    expect_error(code, [&] { device::split_master(exec, SplitRule::nearest, x, brain, rest); });
    expect_error(code, [&] { device::join_master(exec, SplitRule::nearest, brain, rest, x); });
    expect_error(code, [&] { device::current_scales(exec, {}, amax, x, x); });
    expect_error(code, [&] { device::mxfp8_scales(exec, Fp8::e4m3, amax, eight, x); });
    expect_error(code, [&] { device::delayed_scales(exec, {.history = 1}, amax, x, x); });
    expect_error(code, [&] { device::block_quantize_e4m3(exec, {.grid = row}, 0, x, one, four); });
    expect_error(code, [&] { device::block_quantize_e5m2(exec, {.grid = row}, 0, x, one, five); });
    expect_error(code, [&] { device::block_dequantize_e4m3(exec, row, 0, four, one, x); });
    expect_error(code, [&] { device::block_dequantize_e5m2(exec, row, 0, five, one, x); });
    expect_error(code, [&] { device::unscale(exec, 1.0F, x, y); });
    expect_error(code, [&] { device::clip(exec, 1.0F, x, y); });
    expect_error(code, [&] { device::sgd_update(exec, {}, scalars, x, y, none); });
  }
  if (odd < 3) {
    expect_error(code, [&] { device::add_nodes(exec, x, y, z); });
    expect_error(code, [&] { device::sgd_update(exec, {.momentum = true}, scalars, x, y, z); });
    expect_error(code, [&] { device::sgd_ema_update(exec, {}, scalars, x, y, z); });
    expect_error(code, [&] { device::lion_update(exec, {}, scalars, x, y, z); });
  }
  if (odd < 4) {
    expect_error(code, [&] { device::adamw_update(exec, {}, scalars, x, y, z, w, none); });
    expect_error(code, [&] { device::adam_update(exec, {}, scalars, x, y, z, w, none); });
    TrustNorms norms;
    expect_error(code, [&] { device::lamb_norms(exec, {}, scalars, x, y, z, w, norms); });
    expect_error(code, [&] { device::lamb_update(exec, {}, scalars, 1.0F, x, y, z, w); });
  }
  expect_error(code,
               [&] { device::adamw_update(exec, {.amsgrad = true}, scalars, x, y, z, w, v); });
  expect_error(code, [&] { device::adam_update(exec, {.amsgrad = true}, scalars, x, y, z, w, v); });
}

}  // namespace

TEST_CASE("device errors: sizes that differ") {
  if (!built()) return;
  for (std::size_t odd = 0; odd < 5; ++odd) {
    CAPTURE(odd);
    expect_error_of_every_implementation(ErrorCode::invalid_argument, 3, 4, odd);
    expect_error_of_every_implementation(ErrorCode::invalid_argument, 0, 1, odd);
    expect_error_of_every_implementation(ErrorCode::invalid_argument, 1, 0, odd);
  }
}

TEST_CASE("device errors: options and numbers that the contract forbids") {
  if (!built()) return;
  constexpr ErrorCode code = ErrorCode::invalid_argument;
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const StepScalars scalars{};
  for (const std::size_t numel : {std::size_t{0}, std::size_t{5}}) {
    std::vector<float> x(numel), y(numel), z(numel), w(numel), one_more(1);
    expect_error(code, [&] { device::sgd_update(exec, {.nesterov = true}, scalars, x, y, {}); });
    expect_error(code, [&] { device::sgd_update(exec, {}, scalars, x, y, one_more); });
    expect_error(code, [&] { device::adamw_update(exec, {}, scalars, x, y, z, w, one_more); });
    expect_error(code, [&] { device::adam_update(exec, {}, scalars, x, y, z, w, one_more); });
    for (const double bad : {0.0, -0.0, -1.0, inf, -inf, nan}) {
      expect_error(code, [&] { device::clip_value(exec, static_cast<float>(bad), x); });
      expect_error(code, [&] { device::grad_norm_p(exec, x, bad); });
    }
  }
}

TEST_CASE("device errors: an empty operand needs no device") {
  if (!built()) return;
  std::vector<float> none;
  std::vector<bf16> brain;
  std::vector<e4m3> four;
  NormLimbs limbs;
  std::uint32_t amax = 17;
  const StepScalars scalars{};
  CHECK_NOTHROW(device::clip(exec, 1.0F, none, none));
  CHECK_NOTHROW(device::clip_value(exec, 1.0F, none));
  CHECK_NOTHROW(device::add_nodes(exec, none, none, none));
  CHECK_NOTHROW(device::cast_to_e4m3(exec, none, four));
  CHECK_NOTHROW(device::widen_e4m3(exec, four, none));
  CHECK_NOTHROW(device::stochastic_cast_to_bf16(exec, {}, none, brain));
  CHECK_NOTHROW(
      device::adamw_update(exec, {.amsgrad = true}, scalars, none, none, none, none, none));
  CHECK_NOTHROW(device::adam_update(exec, {}, scalars, none, none, none, none, none));
  CHECK_NOTHROW(device::sgd_update(exec, {.momentum = true}, scalars, none, none, none));
  CHECK_NOTHROW(device::sgd_ema_update(exec, {}, scalars, none, none, none));
  CHECK_NOTHROW(device::lion_update(exec, {}, scalars, none, none, none));
  CHECK_NOTHROW(device::lamb_update(exec, {}, scalars, 1.0F, none, none, none, none));
  TrustNorms norms;
  device::lamb_norms(exec, {}, scalars, none, none, none, none, norms);
  CHECK(norms == TrustNorms{});
  CHECK_FALSE(device::unscale(exec, 1.0F, none, none));
  device::grad_norm_accumulate(exec, none, limbs);
  device::grad_norm_exact_accumulate(exec, none, limbs);
  device::grad_abs_accumulate(exec, none, limbs);
  CHECK(limbs == NormLimbs{});
  device::grad_max_accumulate(exec, none, amax);
  CHECK(amax == 17);
  CHECK(device::grad_norm_p(exec, none, 2.5) == 0);
}

TEST_CASE("device errors: every implementation reports a missing device") {
  const device::DeviceInfo& info = device::device_info();
  CHECK_FALSE(info.detail.empty());
  std::printf("%s: %s\n", info.answers ? "device" : "no device", info.detail.c_str());
  if (info.answers) return;
  constexpr ErrorCode code = ErrorCode::unavailable;
  expect_error_of_every_implementation(code, 5, 5, 0);
  NormLimbs limbs;
  std::uint32_t amax = 0;
  std::vector<float> grad(5);
  std::vector<std::uint32_t> largest(1);
  expect_error(code, [&] {
    device::block_amax(exec, one_block(1, 5), QuantizedValue::direct, 0, grad, largest);
  });
  expect_error(code, [&] { device::clip_value(exec, 1.0F, grad); });
  expect_error(code, [&] { device::grad_norm_accumulate(exec, grad, limbs); });
  expect_error(code, [&] { device::grad_norm_exact_accumulate(exec, grad, limbs); });
  expect_error(code, [&] { device::grad_abs_accumulate(exec, grad, limbs); });
  expect_error(code, [&] { device::grad_max_accumulate(exec, grad, amax); });
  expect_error(code, [&] { device::grad_norm_p(exec, grad, 3.0); });
}

}  // namespace device_errors_test
