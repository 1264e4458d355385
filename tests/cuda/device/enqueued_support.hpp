#pragma once
// One rank on a device and the same one on the host, with gradients for both.

#include <doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/comm/self.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "cuda/enqueued_optimizer.hpp"

namespace zeroproof::tests {

/// Three tensors, one of them longer than a block and one empty, with a schedule and a loss scaler.
struct EnqueuedRank {
  using Params = std::vector<ParamSpec>;
  static Params usual() { return {{"a", {70}}, {"none", {0}}, {"b", {17, 1024}}, {"c", {3}}}; }

  /// ranks: one of several ranks that communicate through this transport; null: a single rank.
  explicit EnqueuedRank(bool graphs, OnNonfinite on_nonfinite = OnNonfinite::skip,
                        const Params& params = usual(), Communicator* ranks = nullptr,
                        Transport transport = Transport::nccl)
      : layout(params),
        shards(layout.padded_numel(), ranks == nullptr ? 1 : ranks->world_size(), 4096),
        comm(ranks == nullptr ? make_self_communicator() : nullptr) {
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = ranks == nullptr ? comm.get() : ranks;
    setup.transport = ranks == nullptr ? Transport::copies : transport;
    setup.stage = 1;
    setup.grad_dtype = DType::bf16;
    setup.hyper.max_norm = 0.5;
    setup.hyper.lr = 0.01;
    setup.groups.schedule.warmup = 40;
    setup.groups.schedule.decay = DecayShape::cosine;
    setup.groups.schedule.decay_end = 1060;
    setup.scaler.kind = LossScalerKind::dynamic;
    setup.scaler.log2_initial = 4;
    setup.scaler.growth_interval = 50;
    setup.on_nonfinite = on_nonfinite;
    remake(setup.comm->world_size(), graphs);
  }

  void remake(std::int64_t micro_batches, bool graphs) {
    setup.micro_batches = micro_batches;
    with_graphs = graphs;
    optimizer = cuda::make_enqueued_optimizer(setup, true, graphs);
    OptimizerSetup host = setup;
    host.transport = Transport::copies;
    host.offload = {};
    on_host = cuda::make_distributed_optimizer(host);
  }

  FullState state(std::int64_t applied_steps = 0) {
    const auto numel = static_cast<std::size_t>(layout.padded_numel());
    ones.assign(numel, 1.0F);
    zeros.assign(numel, 0.25F);
    FullState state;
    state.master = ones;
    state.slots = {zeros, zeros};
    steps.assign(layout.tensors().size(), static_cast<std::uint64_t>(applied_steps));
    state.tensor_steps = steps;
    state.applied_steps = applied_steps;
    state.scaler = {4, 0, 1};
    return state;
  }

  /// Every bit that persists across steps, of all elements except padding.
  void check_same_state() {
    for (const Phase phase : {Phase::update, Phase::cast, Phase::gather}) {
      const std::vector<ExposedBuffer> ours = on_host->exposed(phase);
      const std::vector<ExposedBuffer> theirs = optimizer->exposed(phase);
      REQUIRE(ours.size() == theirs.size());
      for (std::size_t i = 0; i < ours.size(); ++i) {
        CAPTURE(static_cast<int>(ours[i].id));
        const std::int64_t width = num_bytes(ours[i].view.dtype);
        std::vector<Piece> pieces = {{0, 0, 0, 0, ours[i].view.numel}};
        const bool of_elements = !ours[i].ranges.empty() && !is_state_scale(ours[i].id);
        if (of_elements) pieces = layout.pieces(ours[i].ranges);
        bool same = true;
        for (const Piece& piece : pieces) {
          const auto at = [&](const ExposedBuffer& buffer) {
            return static_cast<const std::byte*>(buffer.view.data) + piece.local_begin * width;
          };
          same = same && std::memcmp(at(ours[i]), at(theirs[i]),
                                     static_cast<std::size_t>(piece.numel * width)) == 0;
        }
        CHECK(same);
      }
    }
  }

  FlatLayout layout;
  ShardMap shards;
  std::unique_ptr<Communicator> comm;  ///< if there is one rank
  OptimizerSetup setup;
  bool with_graphs = false;
  std::unique_ptr<cuda::EnqueuedOptimizer> optimizer;
  std::unique_ptr<DistributedOptimizer> on_host;
  std::vector<float> ones, zeros;
  std::vector<std::uint64_t> steps;
};

/// Two matrices with elements besides other tensors.
inline EnqueuedRank::Params muon_params() {
  return {{"a", {70}}, {"none", {0, 3}}, {"b", {12, 200}}, {"c", {40, 9}}, {"d", {1025}}};
}

/// The rule muon; `b` is in parts of different widths. Needs remake().
inline void use_muon(EnqueuedRank& rank) {
  rank.setup.hyper.rule = UpdateRule::muon;
  rank.setup.hyper.momentum = 0.75;
  rank.setup.hyper.nesterov = true;
  rank.setup.hyper.norm = NormForm::exact;
  rank.setup.hyper.muon.newton_schulz.steps = 2;
  rank.setup.matrix_tensors =
      make_matrix_tensors({}, {{"split", {"b"}, {}, {3, 5, 2}}}, rank.layout);
}

/// The same values for every micro-batch, times a factor.
class HostGrads : public GradSource {
 public:
  HostGrads(EnqueuedRank& rank, std::int64_t micro_batches)
      : leaf_(rank.layout.padded_numel(), DType::bf16) {
    if (rank.setup.micro_batches != micro_batches) rank.remake(micro_batches, rank.with_graphs);
    micro_batches_ = micro_batches;
    fill(1.0F);
  }

  virtual void fill(float factor) {
    for (std::int64_t i = 0; i < leaf_.numel(); ++i) {
      const auto value = static_cast<float>((i * 7) % 61 - 30) * 0x1p-4F * factor;
      leaf_.as<bf16>()[i].bits = static_cast<std::uint16_t>(bits(value) >> 16);
    }
  }
  TensorView micro_batch_grad(std::int64_t) override { return leaf_.view(); }

  /// A different number of tokens in every step, and a tensor without a gradient in some (its
  /// elements are arbitrary: they must not be used).
  void counted(std::int64_t step) { step_ = step; }
  std::int64_t num_tokens(std::int64_t) const override { return 1 + step_ % 5; }
  bool has_grad(std::int64_t, std::int64_t tensor) const override {
    return (step_ + tensor) % 3 != 0;
  }

 protected:
  static std::uint32_t bits(float value) {
    std::uint32_t word = 0;
    std::memcpy(&word, &value, sizeof word);
    return word;
  }

  GuardedBuffer leaf_;
  std::int64_t micro_batches_ = 1;
  std::int64_t step_ = 0;
};

/// Gradients in device memory. Every factor has its own memory, so that later steps keep theirs.
class DeviceGrads final : public HostGrads {
 public:
  DeviceGrads(EnqueuedRank& rank, std::int64_t micro_batches) : HostGrads(rank, micro_batches) {
    DeviceGrads::fill(1.0F);
  }
  ~DeviceGrads() override {
    for (const auto& [factor, data] : copies_) cuda::device::device_release(data);
  }
  DeviceGrads(const DeviceGrads&) = delete;
  DeviceGrads& operator=(const DeviceGrads&) = delete;

  void fill(float factor) override {
    void*& data = copies_[bits(factor)];
    if (data == nullptr) {
      HostGrads::fill(factor);
      data = cuda::device::device_allocate(leaf_.view().num_bytes());
      cuda::device::stage_to_device(data, leaf_.data(), leaf_.view().num_bytes());
      cuda::device::wait_for_stream();  // a rank has its own stream
    }
    now_ = data;
  }
  TensorView micro_batch_grad(std::int64_t) override { return {now_, DType::bf16, leaf_.numel()}; }
  Space space() const override { return Space::device; }

  /// Number of folds of the gradients of a step: each one but the last into a node, the last into
  /// G.
  std::int64_t kernels() const { return micro_batches_; }

 private:
  std::map<std::uint32_t, void*> copies_;  ///< by the bits of the factor
  void* now_ = nullptr;
};

/// Steps of two micro-batches from there, on both sides, one of them skipped: identical bits after
/// each.
inline void check_each_step(EnqueuedRank& rank, const FullState& state) {
  DeviceGrads leaves(rank, 2);
  HostGrads same(rank, 2);
  rank.optimizer->load_state(state);
  rank.on_host->load_state(state);
  std::int64_t step = 0;
  for (const float factor : {1.0F, 0.5F, std::numeric_limits<float>::infinity(), 3.0F, 0.25F}) {
    leaves.counted(step);
    same.counted(step++);
    leaves.fill(factor);
    same.fill(factor);
    rank.optimizer->enqueue_step(leaves);
    rank.on_host->step(same);
    rank.optimizer->wait();
    rank.check_same_state();
  }
}

/// The same without waits before the last step and without a skipped one. Ends the optimizer, which
/// reads the gradients.
inline void check_last_step(EnqueuedRank& rank) {
  DeviceGrads leaves(rank, 2);
  HostGrads same(rank, 2);
  const FullState state = rank.state();
  rank.optimizer->load_state(state);
  rank.on_host->load_state(state);
  for (const float factor : {1.0F, 0.5F, 3.0F, 0.25F}) {
    leaves.fill(factor);
    same.fill(factor);
    rank.optimizer->enqueue_step(leaves);
    rank.on_host->step(same);
  }
  rank.optimizer->wait();
  rank.check_same_state();
  rank.optimizer.reset();
}

/// Six steps with a part of the state offloaded, the fourth one skipped: the calls of the device in
/// each, and identical bits at the end.
inline void check_offloaded_steps(EnqueuedRank& rank, bool graphs) {
  HostGrads leaves(rank, 2);
  rank.optimizer->load_state(rank.state());
  rank.on_host->load_state(rank.state());
  for (int step = 1; step <= 6; ++step) {
    leaves.fill(step == 4 ? std::numeric_limits<float>::infinity() : static_cast<float>(step));
    leaves.counted(step);
    rank.on_host->step(leaves);
    const cuda::DeviceCalls before = cuda::device::device_calls();
    rank.optimizer->enqueue_step(leaves);
    const cuda::DeviceCalls calls = cuda::device::device_calls() - before;
    // The decision; norms of a rule with trust ratios; the resident part of the update; the
    // parameters.
    const int ranges = traits_of(rank.setup.hyper.rule).trust_ratio ? 4 : 3;
    if (step > 4) CHECK(calls.graph_launches == (graphs ? ranges : 0));
    if (step > 4) CHECK(calls.waits > 0);
  }
  const cuda::StepStatus status = rank.optimizer->wait();
  CHECK(status.steps == 6);
  CHECK(status.applied_steps == 5);
  CHECK(!status.skipped);
  CHECK(status.scaler == rank.on_host->loss_scaler());
  rank.check_same_state();
}

}  // namespace zeroproof::tests
