// What others see of a step on a device.

#include <type_traits>
#include <vector>

#include "cuda/optimizer/device/device_step.hpp"

namespace zeroproof::cuda {
namespace {

template <class T>
TensorView view_of(T* data, DType dtype, std::int64_t numel) {
  return {const_cast<std::remove_const_t<T>*>(data), dtype, numel};
}

}  // namespace

std::vector<const void*> DeviceStep::addresses() const {
  return {memory_.state,
          memory_.input,
          memory_.scalars,
          memory_.tensor_steps,
          memory_.has_grad,
          memory_.schedule,
          memory_.pieces,
          memory_.grad,
          memory_.master,
          memory_.exp_avg,
          memory_.exp_avg_sq,
          memory_.max_exp_avg_sq,
          memory_.momentum_buffer,
          memory_.param,
          seen_ > 0 ? memory_.found : nullptr,
          memory_.groups_found.sums};
}

/// Somebody put other values there. Whether the step is skipped follows from them.
void DeviceStep::overwritten(Phase phase) {
  if (phase == Phase::reduce) forget_look();
  if (phase != Phase::unscale) return;
  device::StepRecord record = record_.read();
  skipped_ = record.found.found_inf != 0 && rules_.on_nonfinite != OnNonfinite::propagate;
  record.found.skipped = skipped_ ? 1U : 0U;
  record_.write(record);
}

std::vector<ExposedBuffer> DeviceStep::exposed(Phase phase) {
  const auto sharded = [&](BufferId id, const GuardedBuffer& buffer) {
    return ExposedBuffer{id, buffer.view(), shard_.ranges};
  };
  const device::StepMemory& memory = memory_;
  std::vector<ExposedBuffer> buffers;
  switch (phase) {
    case Phase::prepare:
      return {{BufferId::step_scalars,
               view_of(memory.scalars, DType::u32, memory.num_sets * num_step_scalar_words),
               {}}};
    case Phase::reduce:
      return {sharded(BufferId::grad_sum, *shard_.grad)};
    case Phase::unscale:
      if (!fused_) buffers.push_back(sharded(BufferId::unscaled_grad, *shard_.grad));
      buffers.push_back({BufferId::found_inf, view_of(&memory.found->found_inf, DType::u32, 1), {}});
      buffers.push_back({BufferId::loss_scaler,
                         view_of(&memory.state->scaler, DType::u32, sizeof(LossScalerState) / 4),
                         {}});
      return buffers;
    case Phase::norm: {
      const device::ClipGroupsFound& groups = memory.groups_found;
      std::uint64_t* const sums = several_norms() ? groups.sums : memory.found->sums;
      double* const norms = several_norms() ? groups.grad_norm : &memory.found->grad_norm;
      if (rules_.hyper.norm == NormForm::inf) {
        void* const amax = several_norms() ? static_cast<void*>(groups.largest) : &memory.found->amax;
        buffers.push_back({BufferId::grad_amax, {amax, DType::u32, groups.count}, {}});
      } else {
        buffers.push_back(
            {BufferId::norm_limbs, view_of(sums, DType::u64, groups.count * device::num_norm_words), {}});
      }
      buffers.push_back({BufferId::grad_norm, view_of(norms, DType::fp64, groups.count), {}});
      return buffers;
    }
    case Phase::clip: {
      const device::ClipGroupsFound& groups = memory.groups_found;
      float* const coefs = several_norms() ? groups.clip_coef : &memory.found->clip_coef;
      buffers.push_back({BufferId::clip_coef, view_of(coefs, DType::fp32, groups.count), {}});
      if (!fused_) buffers.push_back(sharded(BufferId::grad, *shard_.grad));
      return buffers;
    }
    case Phase::update:
      buffers = shard_.state.exposed(shard_.ranges);
      buffers.push_back(sharded(BufferId::master, *shard_.master));
      buffers.push_back({BufferId::applied_steps, view_of(&memory.state->applied_steps, DType::u64, 1), {}});
      if (per_tensor()) {
        buffers.push_back(
            {BufferId::tensor_steps, view_of(memory.tensor_steps, DType::u64, memory.num_tensors), {}});
      }
      return buffers;
    case Phase::cast:
    case Phase::gather:
      break;
  }
  return buffers;
}

}  // namespace zeroproof::cuda
