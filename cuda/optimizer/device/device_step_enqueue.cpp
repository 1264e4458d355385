// The step without a look in between, and what the host sends to it.

#include <algorithm>
#include <cstddef>
#include <limits>

#include "common/base/error.hpp"
#include "cuda/device/runtime/memory.hpp"
#include "cuda/comm/exchange/step_ranks.hpp"
#include "cuda/optimizer/device/device_step.hpp"
#include "cuda/optimizer/state/step_counts.hpp"

namespace zeroproof::cuda {

/// Rows from first_t on. Steps that were enqueued before have read theirs by then.
void DeviceStep::enqueue_schedule(std::int64_t first_t) {
  const OptimizerSetup& setup = shard_.setup;
  constexpr std::int64_t last_t = std::numeric_limits<std::int64_t>::max();
  std::vector<device::ScheduleRow> rows;
  const auto add = [&](std::int64_t t) {
    for (int group = 0; group < setup.groups.count(); ++group) {
      const OptimizerHyper hyper = hyper_of(setup.groups, setup.hyper, group, t, setup.micro_batches);
      rows.push_back({hyper.lr, hyper.weight_decay});
    }
  };
  add(first_t);
  num_rows_ = 1;
  try {
    for (; num_rows_ < max_schedule_rows && first_t <= last_t - num_rows_; ++num_rows_)
      add(first_t + num_rows_);
  } catch (const Error&) {  // R20 ends there; so does the table
  }
  rows.resize(static_cast<std::size_t>(schedule_.count()));
  std::ranges::copy(rows, rows_.data());
  device::enqueue_to_device(schedule_.data(), rows_.data(), rows_.num_bytes());
  first_row_t_ = first_t;
  divisor_ = 0;  // what is written with it
}

void DeviceStep::enqueue_inputs(GradSource& leaves, std::int64_t seen_t, std::int64_t latest_t,
                                std::int64_t slot) {
  enqueued_ = true;
  send_inputs(leaves, seen_t, latest_t, slot);
  begin_look(memory_.found);
  if (several_norms()) clear_norms();
}

void DeviceStep::send_inputs(GradSource& leaves, std::int64_t seen_t, std::int64_t latest_t,
                             std::int64_t slot) {
  const OptimizerSetup& setup = shard_.setup;
  skipped_ = false;
  const std::int64_t divisor = step_divisor(setup, leaves);
  if (per_tensor()) {
    const std::int64_t count = has_grad_.count();
    std::uint64_t* const words = grad_bits_.data() + slot * count;
    find_gradients(setup, leaves, {words, static_cast<std::size_t>(count)});
    device::enqueue_to_device(has_grad_.data(), words, count * static_cast<std::int64_t>(sizeof(*words)));
  }
  if (first_row_t_ == 0 || seen_t < first_row_t_ || latest_t - first_row_t_ >= num_rows_) {
    enqueue_schedule(seen_t);
  }
  if (divisor == divisor_) return;
  inputs_.data()[slot] = {divisor, first_row_t_, num_rows_};
  device::enqueue_to_device(input_.data(), inputs_.data() + slot, sizeof(device::StepInput));
  divisor_ = divisor;
}

void DeviceStep::enqueue_find() const {
  if (seen_ == 0) return device::enqueue_finite_norm(memory_, rules_, !alone());
  if (!alone()) decide(device::decide_scalars);
}

void DeviceStep::enqueue_integers() const {
  static_assert(offsetof(device::StepFound, not_digest) == offsetof(device::StepFound, found_inf) + 16);
  all_reduce_step(&memory_.found->found_inf, 3, IntegerReduce::max);  // with digest and not_digest
  all_reduce_norm();
}

void DeviceStep::enqueue_decide_all(std::uint32_t parts) const {
  parts |= device::decide_scaler | device::decide_norm | device::decide_clip;
  device::enqueue_decide(memory_, rules_, alone() ? parts | device::decide_scalars : parts, !alone());
}

void DeviceStep::enqueue_decision() const { enqueue_decide_all(0); }

bool DeviceStep::look_at_decision() {
  const device::StepRecord record = record_.read();
  looked(record);
  return record.state.halt == 0 && !skipped();
}

/// Draws of the cast belong to the step that is being counted.
void DeviceStep::enqueue_counted_update() const {
  decide(device::decide_count);
  for (const device::StepMemory& memory : updated_) device::enqueue_fused_update(memory, rules_);
}

void DeviceStep::enqueue_update() const {
  enqueue_decide_all(device::decide_count);
  stored_ ? stored_->update(memory_, rules_, true) : device::enqueue_fused_update(memory_, rules_);
  enqueue_collect();
}

void DeviceStep::enqueue_collect() const {
  for (const auto& scales : scales_) scales->collect(memory_);
}

void DeviceStep::enqueue_amax() const {
  if (stored_ && stored_->joins()) stored_->join();
  for (const auto& scales : scales_) scales->join();
}

void DeviceStep::enqueue_params() const {
  if (stored_) stored_->finish(memory_);
  for (const auto& scales : scales_) scales->make(memory_);
}

}  // namespace zeroproof::cuda
