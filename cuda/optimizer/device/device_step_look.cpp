// What a rank finds in its G, while it is written or after that, and what the ranks find together.

#include <cstddef>

#include "cuda/device/step/fold_look.hpp"
#include "cuda/optimizer/device/device_step.hpp"

namespace zeroproof::cuda {

GradTarget DeviceStep::grad_target() {
  GradTarget target{shard_.grad->as<float>()};
  if (!fused_ || several_norms()) return target;
  target.see.enqueue = [this](const host::PieceLoop& loop, const host::FoldPlan& plan,
                              Span<const NodeValues> operands, const NodeValues& sum) {
    seen_ += device_space().fold_look(
        loop, plan, operands, sum, {memory_.state, memory_.input, look_, counted_.data(), rules_.hyper.norm});
  };
  return target;
}

void DeviceStep::end_sum(const std::optional<TensorView>&, const GradTarget&) {
  if (seen_ != numel_) forget_look();
}

void DeviceStep::begin_look(device::StepFound* found) {
  look_ = found;
  seen_ = 0;
  clear(*found);
}

StepDecision DeviceStep::decision() const {
  StepDecision decision;
  const auto read = [](const auto& from, auto& to) {
    to.resize(static_cast<std::size_t>(from.count()));
    from.read(to);
  };
  read(scalars_, decision.scalars);
  read(has_grad_, decision.has_grad);
  read(tensor_steps_, decision.tensor_steps);
  const device::StepRecord record = record_.read();
  decision.applied_steps = record.state.applied_steps;
  decision.clip_coef = {record.found.clip_coef};
  if (several_norms()) read(group_coefs_, decision.clip_coef);
  return decision;
}

void DeviceStep::clear_norms() const {
  if (several_norms()) {
    group_sums_.fill(0);
    group_amax_.fill(0);
  } else {
    clear(memory_.found->sums);
    clear(memory_.found->amax);
  }
}

void DeviceStep::forget_look() {
  if (seen_ > 0) begin_look(look_);
}

void DeviceStep::all_reduce_step(std::uint64_t* words, std::size_t count, IntegerReduce op) const {
  for (Communicator* const wire : {wires_.comm, wires_.replicas, wires_.tp}) {
    if (wire != nullptr && wire->world_size() > 1) wire->all_reduce({words, count}, op);
  }
}

void DeviceStep::all_reduce_norm() const {
  // In stage 0 every rank has counted every element, and every instance has all of them.
  Communicator* const comm = shard_.setup.stage > 0 ? wires_.comm : nullptr;
  const bool largest = rules_.hyper.norm == NormForm::inf;
  const device::ClipGroupsFound& groups = memory_.groups_found;
  const auto count = static_cast<std::size_t>(groups.count);
  std::uint64_t* const sums = several_norms() ? groups.sums : memory_.found->sums;
  std::uint64_t* const amax = several_norms() ? groups.amax : &memory_.found->amax;
  const Span<std::uint64_t> words(largest ? amax : sums, largest ? count : count * device::num_norm_words);
  for (Communicator* const wire : {comm, wires_.tp}) {
    if (wire != nullptr && wire->world_size() > 1) {
      wire->all_reduce(words, largest ? IntegerReduce::max : IntegerReduce::sum);
    }
  }
}

}  // namespace zeroproof::cuda
