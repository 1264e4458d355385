#pragma once
// The state buffers of a rule, and the update that changes them.

#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"

namespace zeroproof::cuda {

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

  const GuardedBuffer& operator[](StateSlot slot) const { return *buffers_[slot]; }
  bool kept(StateSlot slot) const { return kept_[slot]; }
  StateFormat format(StateSlot slot) const { return formats_.of(slot); }

  /// scale_inv of a block of the undistributed numbering, of which the rank has elements; and all
  /// of them, with their views for observers.
  float& scale(StateSlot slot, std::int64_t block) const {
    return scales_[slot]->as<float>()[blocks_.place(block)];
  }
  const GuardedBuffer& scales(StateSlot slot) const { return *scales_[slot]; }
  const ScaledStateBlocks& blocks() const { return blocks_; }

  /// Views for observers after an update, scales after the buffers. ranges: elements whose state is
  /// on the rank.
  std::vector<ExposedBuffer> exposed(const std::vector<FlatRange>& ranges) const;

  /// The elements of a piece; empty for a buffer that the rule does not use, or that is not in
  /// fp32.
  Span<float> part(StateSlot slot, const Piece& piece) const {
    if (!kept_[slot] || format(slot) != StateFormat::fp32) return {};
    return buffers_[slot]->as<float>().subspan(piece.local_begin, piece.numel);
  }

  /// The rule's update of one piece (R6).
  void update(const KernelTable& ops, const Exec& exec, const OptimizerHyper& hyper,
              const StepScalars& scalars, const Piece& piece, Span<const float> grad,
              Span<float> master) const;

  /// A piece of master and of every buffer of the rule.
  host::FusedState fused(const Piece& piece, Span<float> master) const {
    return {master, per_slot([&](StateSlot slot) { return part(slot, piece); })};
  }

 private:
  StateFormats formats_;
  ScaledStateBlocks blocks_;
  PerSlot<bool> kept_{};
  PerSlot<CountedBuffer> buffers_, scales_;
};

}  // namespace zeroproof::cuda
