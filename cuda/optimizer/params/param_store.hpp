#pragma once
// Storage of parameters: this rank's shard, the shards it can read, and the whole model if it is
// one copy per machine.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/exchange/shared_buffers.hpp"
#include "cuda/comm/exchange/shared_memory_group.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"

namespace zeroproof::cuda {

/// Other ranks read a shard, or the copy, from fence() on. They have finished when all ranks meet
/// in phase unscale of the next step; it is not written again before that.
class ParamStore {
 public:
  /// near: null for messages only; collective otherwise. ranges: elements whose state is on this
  /// rank.
  ParamStore(const OptimizerSetup& setup, const std::vector<FlatRange>& ranges,
             const SharedMemoryGroup* near, MemoryLedger& ledger);

  /// Whether the whole model is one copy per machine that every rank reads and partly writes.
  bool one_copy() const { return one_copy_; }
  /// That copy: [padded_numel].
  TensorView copy() const { return shared_->of(0, 0); }

  /// This rank's shard, [shard_numel] (stage 0: [padded_numel]). With one copy per machine the
  /// shard is part of it; this is then the packed copy made by show().
  TensorView shard() const { return one_copy_ ? shown_.view() : shard_->view(); }
  void show();
  /// The reverse: writes it into the copy.
  void take_shown();

  /// Address of the parameters of a piece of the shard.
  TensorView of(const Piece& piece) const {
    if (one_copy_) return part(copy(), piece.global_begin, piece.numel);
    return part(shard_->view(), piece.local_begin, piece.numel);
  }
  template <class T>
  Span<T> as(const Piece& piece) const {
    return {static_cast<T*>(of(piece).data), static_cast<std::size_t>(piece.numel)};
  }

  /// Whether shards of other ranks can be read, and the shard of a rank of this machine, by its
  /// local index.
  bool reads_shards() const { return shared_ && !one_copy_; }
  TensorView shard_at(int place) const { return shared_->of(place, 0); }

  /// Collective over the machine: makes the writes of each rank visible to the others.
  void fence() {
    if (shared_) shared_->fence();
  }

  bool guards_intact() const { return shard_->guards_intact() && shown_.guards_intact(); }

 private:
  static TensorView part(const TensorView& view, std::int64_t begin, std::int64_t numel) {
    return {static_cast<std::byte*>(view.data) + begin * num_bytes(view.dtype), view.dtype, numel};
  }
  /// Calls body(bytes in the copy, bytes in shown_) for every range.
  template <class Body>
  void for_ranges(const Body& body) const;

  const std::vector<FlatRange>& ranges_;
  const bool one_copy_;
  std::unique_ptr<SharedBuffers> shared_;
  CountedBuffer shard_;  ///< with one copy, the copy on the rank in whose window it is
  GuardedBuffer shown_;  ///< for observers
};

}  // namespace zeroproof::cuda
