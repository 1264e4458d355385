#include "verification/bench/device/steps.hpp"

#include <algorithm>
#include <string>

#include "cuda/reduce/sources/fill_grad.hpp"
#include "verification/bench/values.hpp"

namespace zeroproof::verification::bench {

FlatLayout cut_into(std::int64_t tensors, std::int64_t numel) {
  if (tensors == 1) return FlatLayout({{"all", {numel}}});
  std::vector<std::int64_t> weights;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < tensors; ++i) sum += weights.emplace_back(1 + i * 37 % 19);
  std::vector<ParamSpec> params;
  for (const std::int64_t weight : weights) {
    const std::int64_t part = numel / sum * weight + numel % sum * weight / sum;
    params.push_back({std::to_string(params.size()), {std::max<std::int64_t>(1, (part - 1) | 1)}});
  }
  return FlatLayout(params);
}

std::int64_t elements_of(const FlatLayout& layout) {
  std::int64_t sum = 0;
  for (const TensorSlot& tensor : layout.tensors()) sum += tensor.numel;
  return sum;
}

OptimizerSetup device_setup(const FlatLayout& layout, const ShardMap& shards, Communicator& comm,
                            int stage) {
  OptimizerSetup setup = step_setup(layout, shards, comm, stage);
  setup.micro_batches = comm.world_size();
  setup.grad_dtype = DType::bf16;
  return setup;
}

FirstState::FirstState(const FlatLayout& layout)
    : values_(static_cast<std::size_t>(layout.padded_numel()), 0x1p-10F) {}

FullState FirstState::view() const {
  FullState state;
  state.master = values_;
  state.slots = {values_, values_};
  state.applied_steps = steps_before;
  state.scaler = {log2_loss_scale, 0, 1};
  return state;
}

FixedGrad::FixedGrad(const FlatLayout& layout)
    : numel_(layout.padded_numel()), leaf_(cuda::device_space(), layout.padded_numel()) {
  const cuda::SpaceArray<std::int32_t> scale(cuda::device_space(), 1);
  scale.write(log2_loss_scale);
  cuda::device::enqueue_leaf({}, 0, 0, 0, scale.data(), {leaf_.data(), DType::bf16, numel_});
  cuda::device_space().wait();
}

TensorView FixedGrad::micro_batch_grad(std::int64_t) {
  if (marked_ < wanted_) marks_[marked_++].record();
  return {leaf_.data(), DType::bf16, numel_};
}

void FixedGrad::mark(std::size_t steps) {
  while (marks_.size() < steps) marks_.emplace_back();
  wanted_ = steps;
  marked_ = 0;
}

double FixedGrad::seconds_per_step() const {
  return seconds_between(marks_.front(), marks_[marked_ - 1]) / static_cast<double>(marked_ - 1);
}

Digest digest_of(DistributedOptimizer& optimizer, const FlatLayout& layout, Phase phase) {
  Hasher hasher;
  for (const ExposedBuffer& buffer : optimizer.exposed(phase)) {
    if (buffer.ranges.empty()) {
      hasher.add(buffer.view);
      continue;
    }
    const std::int64_t width = num_bytes(buffer.view.dtype);
    for (const Piece& piece : layout.pieces(buffer.ranges)) {
      hasher.add(TensorView{static_cast<std::byte*>(buffer.view.data) + piece.local_begin * width,
                            buffer.view.dtype, piece.numel});
    }
  }
  return hasher.digest();
}

}  // namespace zeroproof::verification::bench
