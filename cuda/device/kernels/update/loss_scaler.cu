#include "cuda/device/kernels/base/single.cuh"
#include "cuda/device/kernels/update/loss_scaler.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/update/loss_scaler_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

struct After {
  LossScalerConfig config;
  LossScalerState state;
  bool found_inf;

  ZP_DEVICE LossScalerState operator()() const {
    return loss_scaler_after(config, state, found_inf);
  }
};

}  // namespace

LossScalerState loss_scaler_update(const LossScalerConfig& config, const LossScalerState& state,
                                   bool found_inf) {
  host::check_loss_scaler(config, state);
  return on_device<LossScalerState>(After{config, state, found_inf});
}

}  // namespace zeroproof::cuda::device
