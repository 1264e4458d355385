#pragma once
// The state buffers of a rule, and the update that changes them.

#include <array>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"

namespace zeroproof::cuda {

/// One state buffer: its name, and its member in the undistributed state.
struct StateBuffer {
  BufferId id;
  Span<const float> FullState::*full;
  Span<const float> FullState::*scale;  ///< of formats that have scales
};

/// Every buffer of any rule, in the order of R6.
inline constexpr std::array<StateBuffer, 4> state_buffers = {{
    {BufferId::exp_avg, &FullState::exp_avg, &FullState::exp_avg_scale},
    {BufferId::exp_avg_sq, &FullState::exp_avg_sq, &FullState::exp_avg_sq_scale},
    {BufferId::max_exp_avg_sq, &FullState::max_exp_avg_sq, &FullState::max_exp_avg_sq_scale},
    {BufferId::momentum_buffer, &FullState::momentum_buffer, &FullState::momentum_buffer_scale},
}};

/// Index of a buffer in state_buffers.
constexpr std::size_t index_of(BufferId id) {
  std::size_t i = 0;
  while (state_buffers[i].id != id) ++i;
  return i;
}

/// Whether the rule uses that buffer.
bool keeps(const OptimizerHyper& hyper, BufferId id);

/// Blocks of the undistributed numbering whose scales are on a rank.
class ScaledStateBlocks {
 public:
  /// ranges: in increasing order.
  explicit ScaledStateBlocks(std::vector<FlatRange> ranges);
  const std::vector<FlatRange>& ranges() const { return ranges_; }
  std::int64_t count() const { return count_; }
  /// The index of a block among those. Errors: internal, if it is none of them.
  std::int64_t place(std::int64_t block) const;

 private:
  std::vector<FlatRange> ranges_;
  std::vector<std::int64_t> before_;  ///< [ranges] blocks of the ranges before
  std::int64_t count_ = 0;
};

/// The rule's state on one rank, [shard_numel] each in its format; buffers not used by the rule are
/// empty.
class RuleState {
 public:
  /// blocks: those whose scales are on the rank, if a format has scales; in increasing order.
  RuleState(const OptimizerHyper& hyper, const StateFormats& formats, std::int64_t shard_numel,
            std::vector<FlatRange> blocks, MemoryLedger& ledger);

  const GuardedBuffer& operator[](std::size_t i) const { return *buffers_[i]; }
  bool kept(std::size_t i) const { return kept_[i]; }
  StateFormat format(std::size_t i) const { return formats_.of(state_buffers[i].id); }

  /// scale_inv of a block of the undistributed numbering, of which the rank has elements; and all
  /// of them, with their views for observers.
  float& scale(std::size_t i, std::int64_t block) const {
    return scales_[i]->as<float>()[blocks_.place(block)];
  }
  const GuardedBuffer& scales(std::size_t i) const { return *scales_[i]; }
  const ScaledStateBlocks& blocks() const { return blocks_; }

  /// Views for observers after an update, scales after the buffers. ranges: elements whose state is
  /// on the rank.
  std::vector<ExposedBuffer> exposed(const std::vector<FlatRange>& ranges) const;

  /// The elements of a piece; empty for a buffer that the rule does not use, or that is not in
  /// fp32.
  Span<float> part(std::size_t i, const Piece& piece) const {
    if (!kept_[i] || format(i) != StateFormat::fp32) return {};
    return buffers_[i]->as<float>().subspan(piece.local_begin, piece.numel);
  }

  Span<float> part(BufferId id, const Piece& piece) const { return part(index_of(id), piece); }
  const GuardedBuffer& operator[](BufferId id) const { return *buffers_[index_of(id)]; }

  /// The rule's update of one piece (R6).
  void update(const KernelTable& ops, const Exec& exec, const OptimizerHyper& hyper,
              const StepScalars& scalars, const Piece& piece, Span<const float> grad,
              Span<float> master) const;

  /// A piece of master and of every buffer of the rule.
  host::FusedState fused(const Piece& piece, Span<float> master) const {
    return {master, part(BufferId::exp_avg, piece), part(BufferId::exp_avg_sq, piece),
            part(BufferId::max_exp_avg_sq, piece), part(BufferId::momentum_buffer, piece)};
  }

 private:
  StateFormats formats_;
  ScaledStateBlocks blocks_;
  std::array<bool, state_buffers.size()> kept_{};
  std::array<CountedBuffer, state_buffers.size()> buffers_, scales_;
};

}  // namespace zeroproof::cuda
