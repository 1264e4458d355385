// Device twins that cannot work say why in one sentence, also in a program without device code.

#include <doctest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/adam.hpp"
#include "cuda/device/cast.hpp"
#include "cuda/device/clip.hpp"
#include "cuda/device/device.hpp"
#include "cuda/device/grad_norm.hpp"
#include "cuda/device/grad_scale.hpp"
#include "cuda/device/grad_sum.hpp"
#include "tests/cuda/expect_error.hpp"

namespace {

using namespace zeroproof;
using tests::expect_error;
namespace device = zeroproof::cuda::device;

const Exec exec;

/// Every device twin with two operands or more, on sizes a and b.
void expect_error_of_every_twin(ErrorCode code, std::size_t a, std::size_t b) {
  std::vector<float> x(a), y(b), z(b), w(b);
  std::vector<bf16> brain(b);
  std::vector<fp16> half(b);
  const StepScalars scalars{};
  expect_error(code, [&] { device::cast_to_bf16(exec, x, brain); });
  expect_error(code, [&] { device::cast_to_fp16(exec, x, half); });
  expect_error(code, [&] { device::widen_bf16(exec, brain, x); });
  expect_error(code, [&] { device::widen_fp16(exec, half, x); });
  expect_error(code, [&] { device::add_nodes(exec, x, y, z); });
  expect_error(code, [&] { device::unscale(exec, 1.0F, x, y); });
  expect_error(code, [&] { device::clip(exec, 1.0F, x, y); });
  expect_error(code, [&] { device::adamw_update(exec, scalars, x, y, z, w); });
}

}  // namespace

TEST_CASE("device errors: sizes that differ") {
  if (!device::device_info().built) return;
  expect_error_of_every_twin(ErrorCode::invalid_argument, 3, 4);
  expect_error_of_every_twin(ErrorCode::invalid_argument, 0, 1);
  expect_error_of_every_twin(ErrorCode::invalid_argument, 1, 0);
}

TEST_CASE("device errors: an empty operand needs no device") {
  if (!device::device_info().built) return;
  std::vector<float> none;
  NormLimbs limbs;
  CHECK_NOTHROW(device::clip(exec, 1.0F, none, none));
  CHECK_FALSE(device::unscale(exec, 1.0F, none, none));
  device::grad_norm_accumulate(exec, none, limbs);
  CHECK(limbs == NormLimbs{});
}

TEST_CASE("device errors: every twin says that there is no device") {
  const device::DeviceInfo& info = device::device_info();
  CHECK_FALSE(info.detail.empty());
  std::printf("%s: %s\n", info.answers ? "device" : "no device", info.detail.c_str());
  if (info.answers) return;
  expect_error_of_every_twin(ErrorCode::unavailable, 5, 5);
  NormLimbs limbs;
  const std::vector<float> grad(5);
  expect_error(ErrorCode::unavailable, [&] { device::grad_norm_accumulate(exec, grad, limbs); });
}
