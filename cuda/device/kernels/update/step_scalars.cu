#include "cuda/device/kernels/base/single.cuh"
#include "cuda/device/kernels/update/step_scalars.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/update/setting_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

struct Scalars {
  ScalarSettings settings;
  std::int64_t t;
  int log2_loss_scale;
  std::int64_t divisor;

  ZP_DEVICE StepScalars operator()() const {
    return step_scalars_of(settings, t, log2_loss_scale, divisor);
  }
};

struct InRange {
  std::int64_t t;
  int log2_loss_scale;
  std::int64_t divisor;

  ZP_DEVICE std::uint32_t operator()() const {
    return step_in_range(t, log2_loss_scale, divisor) ? 1U : 0U;
  }
};

}  // namespace

StepScalars step_scalars(const OptimizerHyper& hyper, std::int64_t t, int log2_loss_scale,
                         std::int64_t divisor) {
  host::check_settings(hyper);
  ZP_CHECK(
      on_device<std::uint32_t>(InRange{t, log2_loss_scale, divisor}) != 0,
      ErrorCode::invalid_argument,
      "step " + std::to_string(t) + " with loss scale 2^" + std::to_string(log2_loss_scale) +
          " and divisor " + std::to_string(divisor) + " leaves the ranges of R5",
      "the reciprocal of loss scale * divisor must be a normal fp32 number, and steps start at 1",
      "keep loss scale * divisor between 2^-126 and 2^126");
  return on_device<StepScalars>(Scalars{scalar_settings(hyper), t, log2_loss_scale, divisor});
}

}  // namespace zeroproof::cuda::device
