#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "cuda/comm/memory/memory_space.hpp"
#include "cuda/offload/offload_stream.hpp"
#include "cuda/offload/offloaded_grad_buffer.hpp"
#include "cuda/offload/offloaded_state.hpp"
#include "cuda/optimizer/host/chunked_host_step.hpp"
#include "cuda/optimizer/state/local_step.hpp"

namespace zeroproof::cuda {

/// Makes the step that updates the offloaded elements; the default is ChunkedHostStep.
using MakeOffloadedStep = std::function<std::unique_ptr<ChunkedHostStep>(
    RankShard& shard, OffloadedState& state, OffloadStream* lane, bool fused,
    const KernelTable& ops)>;

/// Factories of the parts of a step with offloaded state; null: chosen by the setup.
struct OffloadMakers {
  MakeOffloadedState state;
  MakeOffloadedStep step;
};

/// The step of a rank whose state is in two places. One LocalStep has the whole gradient, so that
/// found_inf, norm and clipping do not depend on the split, and updates the resident elements; a
/// ChunkedHostStep on the host then updates the others.
class SplitStateStep : public LocalStep {
 public:
  /// shard.split is set. make: the step of the resident elements. space: of the shard. ops: of the
  /// offloaded update. grads: memory of the gradient sum; null: beside the other buffers.
  SplitStateStep(RankShard& shard, OffloadedState& state, const MemorySpace& space,
                 const MakeLocalStep& make, const KernelTable& ops,
                 const MakeOffloadedStep& make_offloaded = {},
                 OffloadedGradBuffer* grads = nullptr);

  void load(const FullState& state) override;
  /// For the resident elements; fill_offloaded() comes before.
  void load_stored(const FullState& state, const StateBlocks::Chosen& of_codes,
                   const StateBlocks::Change& read) override;
  void prepare(GradSource& leaves) override { resident_->prepare(leaves); }
  void begin_sum() override;
  GradTarget grad_target() override { return resident_->grad_target(); }
  void end_sum(const std::optional<TensorView>& leaf, const GradTarget& target) override;
  void unscale() override;
  bool skipped() const override { return resident_->skipped(); }
  void norm() override { resident_->norm(); }
  void clip() override;
  void prepare_update() override;
  void update() override;
  void cast() override;
  std::vector<ExposedBuffer> exposed(Phase phase) override;
  void overwritten(Phase phase) override;
  bool fused() const override { return resident_->fused(); }
  StepDecision decision() const override { return resident_->decision(); }
  LossScalerState loss_scaler() const override { return resident_->loss_scaler(); }
  std::int64_t applied_steps() const override { return resident_->applied_steps(); }

  /// ChunkedHostStep::fill_stored.
  void fill_offloaded(const FullState& state, const StateBlocks::Chosen& of_codes,
                      const StateBlocks::Change& read,
                      const ChunkedHostStep::ReadScales& read_scales) {
    offloaded_->fill_stored(state, of_codes, read, read_scales);
  }

  /// On the host, through the memory of the chunks.
  std::int64_t host_bytes() const {
    return state_.host_bytes() + (lane_ ? lane_->host_bytes() : 0) +
           (shard_.scales != nullptr ? shard_.scales->host_bytes() : 0) +
           offloaded_->column_bytes();
  }

 private:
  /// One buffer of the state as observers see it: all elements of the shard, or all blocks of which
  /// it has elements, in the space of the shard.
  struct Shown {
    BufferId id;
    GuardedBuffer whole;

    std::byte* at(std::int64_t i) const {
      return static_cast<std::byte*>(whole.data()) + i * zeroproof::num_bytes(whole.dtype());
    }
  };
  /// The offloaded part of the step, around the resident part.
  void load_with(const FullState& state, const std::function<void()>& load_resident);
  void show();
  void take_shown();
  const GuardedBuffer& resident_buffer(BufferId id) const;
  /// Called before a phase that reads the gradient, to verify the seal, and after one that wrote
  /// it.
  void check_grads() const;
  void seal_grads();
  /// Calls body(values of the whole buffer, the same values in their storage, number of bytes) for
  /// the resident part and for each chunk.
  template <class Body>
  void for_resident(const Shown& shown, const Body& body) const;
  template <class Body>
  void for_chunk(const Shown& shown, const StateSplit::Chunk& chunk, const ChunkState& state,
                 const Body& body) const;

  RankShard& shard_;
  OffloadedState& state_;
  const MemorySpace& space_;
  OffloadedGradBuffer* const grads_;
  std::unique_ptr<LocalStep> resident_;
  std::unique_ptr<OffloadStream> lane_;
  std::unique_ptr<ChunkedHostStep> offloaded_;
  const ScaledStateBlocks blocks_;  ///< blocks with scales and elements of the shard
  std::vector<Shown> shown_;        ///< empty before the first observer
};

}  // namespace zeroproof::cuda
