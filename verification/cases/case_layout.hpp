#pragma once
// Which elements of the undistributed model every rank of a case holds.

#include <memory>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/layout/shard_map.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "verification/cases/case.hpp"
#include "verification/cases/experiment.hpp"

namespace zeroproof::verification {

/// Where one rank stands (OptimizerSetup).
struct RankCoords {
  int data_rank = 0;
  int cp_rank = 0;
  int tp_rank = 0;
  int instance = 0;
  int shard_rank = 0;  ///< inside its instance
};

class CaseLayout {
 public:
  /// The tensors of one TP rank, and who owns which of their elements.
  struct Local {
    FlatLayout layout;
    std::vector<TensorPlacement> placement;  // empty without tensor parallelism
    ShardMap shards;                         // over the ranks of one instance
    std::vector<TensorMatrix> matrices;      // that the tensors are cut from; empty as placement
  };

  /// Errors (ErrorCode::config): grid or instances do not multiply out, the workload cannot be cut that way, or
  /// its buckets hold other elements of replicated tensors on one TP rank than on another.
  CaseLayout(const Experiment& experiment, const CaseSpec& spec, int world_size);

  const ProcessGrid& grid() const { return grid_; }
  int instances() const { return instances_; }
  int shard_ranks() const { return grid_.data_ranks() / instances_; }
  bool plain() const { return grid_.tp == 1 && grid_.cp == 1 && instances_ == 1; }
  RankCoords place(int rank) const;
  const Local& local(int tp_rank) const { return *locals_[static_cast<std::size_t>(tp_rank)]; }

  /// Global index of an element of a TP rank's tensor in the undistributed numbering.
  std::int64_t global_index(int tp_rank, const Piece& piece, std::int64_t offset) const;

  /// Runs of a piece that are neighbours in the undistributed numbering too: callback(local_begin, global_begin,
  /// numel).
  template <class Run>
  void for_runs(int tp_rank, const Piece& piece, const Run& run) const {
    for (std::int64_t done = 0; done < piece.numel;) {
      const std::int64_t numel = run_numel(tp_rank, piece, done);
      run(piece.local_begin + done, global_index(tp_rank, piece, done), numel);
      done += numel;
    }
  }

  /// A buffer of the undistributed model as a TP rank has it, [local padded_numel]; padding is NaN.
  std::vector<float> to_local(int tp_rank, Span<const float> whole) const;

  /// Micro-batches a rank computes (R11), written here once more, apart from both optimizers.
  std::vector<std::int64_t> own_micro_batches(int rank, std::int64_t micro_batches, int stage,
                                              MicroBatchOrder order) const;

 private:
  std::int64_t run_numel(int tp_rank, const Piece& piece, std::int64_t offset) const;

  ProcessGrid grid_;
  int instances_;
  std::vector<std::unique_ptr<const Local>> locals_;  // [tp]
};

/// A buffer of the whole model, put together from what the ranks own.
class StateCollector {
 public:
  StateCollector(const FlatLayout& whole, const CaseLayout& layout, int stage, Communicator& comm)
      : whole_(whole), layout_(layout), stage_(stage), comm_(comm) {}

  /// The undistributed buffer, [padded_numel], on rank 0 and an empty one elsewhere. Its padding is NaN, or (where it
  /// is copied as a whole) what `mine` has there. Collective.
  GuardedBuffer collect(const TensorView& mine);

  /// True if rank 0 has whole buffers of an optimizer in the undistributed order, so that there is nothing to collect.
  bool whole_on_root() const;

  /// Scales of the state's blocks (R25), [padded_numel / state_block_numel] of the undistributed numbering, 0 where
  /// there is only padding; on every rank, from the parts that the ranks have. Collective.
  std::vector<float> collect_scales(const ExposedBuffer& mine);

  /// This rank's TP shard as a whole, [local padded_numel], on every rank. Collective.
  GuardedBuffer gather(const TensorView& mine);

 private:
  std::vector<FlatRange> owned(int rank) const;

  const FlatLayout& whole_;
  const CaseLayout& layout_;
  int stage_;
  Communicator& comm_;
};

}  // namespace zeroproof::verification
