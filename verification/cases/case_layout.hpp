#pragma once
// The elements of the undistributed model on every rank of a case.

#include <memory>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/layout/shard_map.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "verification/cases/case.hpp"
#include "verification/cases/experiment.hpp"

namespace zeroproof::verification {

/// The coordinates of one rank (OptimizerSetup).
struct RankCoords {
  int data_rank = 0;
  int cp_rank = 0;
  int tp_rank = 0;
  int instance = 0;
  int shard_rank = 0;  ///< inside its instance
};

class CaseLayout {
 public:
  /// The tensors of one TP rank, and the owner of each element.
  struct Local {
    FlatLayout layout;
    std::vector<TensorPlacement> placement;  // empty without tensor parallelism
    ShardMap shards;                         // over the ranks of one instance
    std::vector<TensorMatrix> matrices;      // that the tensors are parts of; empty as placement
  };

  /// Errors (ErrorCode::config): grid or instances do not multiply out, the workload cannot be
  /// split that way, or the buckets of two TP ranks have different elements of replicated tensors.
  CaseLayout(const Experiment& experiment, const CaseSpec& spec, int world_size);

  const ProcessGrid& grid() const { return grid_; }
  int instances() const { return instances_; }
  int shard_ranks() const { return grid_.data_ranks() / instances_; }
  bool plain() const { return grid_.tp == 1 && grid_.cp == 1 && instances_ == 1; }
  RankCoords place(int rank) const;
  const Local& local(int tp_rank) const { return *locals_[tp_rank]; }

  /// Global index of an element of a TP rank's tensor in the undistributed numbering.
  std::int64_t global_index(int tp_rank, const Piece& piece, std::int64_t offset) const;

  /// Runs of a piece that are contiguous in the undistributed numbering too: callback(local_begin,
  /// global_begin, numel).
  template <class Run>
  void for_runs(int tp_rank, const Piece& piece, const Run& run) const {
    for (std::int64_t done = 0; done < piece.numel;) {
      const std::int64_t numel = run_numel(tp_rank, piece, done);
      run(piece.local_begin + done, global_index(tp_rank, piece, done), numel);
      done += numel;
    }
  }

  /// The part of an undistributed buffer on a TP rank, [local padded_numel]; padding is NaN.
  std::vector<float> to_local(int tp_rank, Span<const float> whole) const;

  /// Micro-batches a rank computes (R11), implemented here independently of both optimizers.
  std::vector<std::int64_t> own_micro_batches(int rank, std::int64_t micro_batches, int stage,
                                              MicroBatchOrder order) const;

 private:
  std::int64_t run_numel(int tp_rank, const Piece& piece, std::int64_t offset) const;

  ProcessGrid grid_;
  int instances_;
  std::vector<std::unique_ptr<const Local>> locals_;  // [tp]
};

/// Assembles a buffer of the whole model from the elements that the ranks own.
class StateCollector {
 public:
  StateCollector(const FlatLayout& whole, const CaseLayout& layout, int stage, Communicator& comm)
      : whole_(whole), layout_(layout), stage_(stage), comm_(comm) {}

  /// The undistributed buffer, [padded_numel], on rank 0; an empty one on the other ranks. Its
  /// padding is NaN, or that of `mine` where the whole buffer is copied. Collective.
  GuardedBuffer collect(const TensorView& mine);

  /// True if rank 0 already has whole buffers of an optimizer in the undistributed order.
  bool whole_on_root() const;

  /// Scales of the state's blocks (R25), [padded_numel / state_block_numel] in the undistributed
  /// numbering, 0 for blocks of padding; on every rank. Collective.
  std::vector<float> collect_scales(const ExposedBuffer& mine);

  /// The whole TP shard of this rank, [local padded_numel], on every rank. Collective.
  GuardedBuffer gather(const TensorView& mine);

 private:
  std::vector<FlatRange> owned(int rank) const;

  const FlatLayout& whole_;
  const CaseLayout& layout_;
  int stage_;
  Communicator& comm_;
};

}  // namespace zeroproof::verification
