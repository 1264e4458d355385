#pragma once
// From parameter shards to whole parameters: all of them (stages 0 to 2), units (stage 3),
// persistent tensors (stage 3).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/comm/exchange/grad_memory.hpp"
#include "cuda/comm/exchange/packed_exchange.hpp"
#include "cuda/comm/exchange/registered_buffer.hpp"
#include "cuda/comm/exchange/shared_memory_group.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"
#include "cuda/optimizer/overlap/unit_exchange.hpp"
#include "cuda/optimizer/params/param_store.hpp"

namespace zeroproof::cuda {

class ParamGather final : public UnitGatherer {
 public:
  /// near: null for messages only; comm: of the comm_groups, which may have memory for whole
  /// parameters: collective then. All arguments must outlive this object.
  ParamGather(const OptimizerSetup& setup, const std::vector<BucketPlan>& plans, GradMemory& memory,
              ParamStore& params, const SharedMemoryGroup* near, Communicator& comm);

  /// Phase gather: brings param_full up to date. Collective over comm from stage 1 on.
  void gather_all();

  /// Gathers one unit from the shards. Tensors that are whole on every rank are copied, not
  /// communicated.
  void gather(const FlatRange& unit, const TensorView& full) override;
  std::int64_t version() const override { return version_; }

  /// Marks everything gathered before as stale, because param_shard was written.
  void count_cast() { ++version_; }

  /// Parameters that are whole on every rank: [padded_numel]; in stage 3 the persistent tensors,
  /// one after another. On a rank that owns all of them in stages 0 to 2 they are the shard itself.
  TensorView full() const {
    if (params_.one_copy()) return params_.copy();
    return in_shard_ ? params_.shard() : full_->view();
  }
  /// Their buffer if they have one of their own.
  const GuardedBuffer& full_buffer() const { return *full_; }
  const std::vector<FlatRange>& full_ranges() const { return full_ranges_; }

 private:
  /// A run of elements: its address in its owner's shard, and its destination.
  struct Run {
    std::int64_t from = 0;
    std::int64_t to = 0;
    std::int64_t numel = 0;
  };
  struct RankRuns {
    std::vector<Run> runs;
    std::int64_t numel = 0;
  };
  using Exchange = std::vector<RankRuns>;  // [world_size]

  bool is_persistent(std::int64_t tensor) const { return persistent_begin_[tensor] >= 0; }
  void find_persistent();
  void find_near_shards();
  void add(const Piece& piece, std::int64_t to, RankRuns& of_rank) const;
  Exchange plan_persistent() const;
  /// Built for every gather: stored for all units, it would grow with the square of the world over
  /// all ranks.
  Exchange plan_of(const FlatRange& unit) const;
  void run(const Exchange& exchange, std::byte* target);
  void gather_buckets();
  /// Whether a rank of another machine sends its elements to this one.
  bool takes(int receiver, int owner) const;
  void send_far(const Stretches& mine, const std::vector<Stretches>& places);
  void copy_shards();
  void gather_far_buckets();

  const OptimizerSetup& setup_;
  const std::vector<BucketPlan>& plans_;
  GradMemory& memory_;
  ParamStore& params_;
  const SharedMemoryGroup* const shared_memory_group_;  ///< null without shared memory
  Communicator& comm_;
  const bool in_shard_;
  const std::int64_t width_;
  std::vector<FlatRange> full_ranges_;
  /// [num_tensors] offset in full_, -1 if absent; stage 3 only.
  std::vector<std::int64_t> persistent_begin_;
  /// [world_size] of the shards, in global order; stage 3 only.
  std::vector<std::vector<Piece>> pieces_;
  Exchange persistent_;
  /// [ranks of this machine] in stages 1 and 2: from their shards to full_.
  std::vector<host::PieceLoop> near_shards_;
  std::unique_ptr<RegisteredBuffer> full_memory_;  ///< of full_; null: ordinary memory
  CountedBuffer full_;
  std::int64_t version_ = 0;
};

}  // namespace zeroproof::cuda
