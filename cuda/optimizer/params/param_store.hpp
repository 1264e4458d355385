#pragma once
// Where parameters are: this rank's shard, the shards it can read, and the whole model if that is one copy for a
// machine.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/exchange/shared_buffers.hpp"
#include "cuda/comm/exchange/shared_memory_group.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"

namespace zeroproof::cuda {

/// Others read a shard, or the copy, from fence() on. They have done so when all ranks meet in phase unscale of the
/// next step, before which nobody writes it again.
class ParamStore {
 public:
  /// near: null for messages only; collective otherwise. ranges: what this rank keeps state for.
  ParamStore(const OptimizerSetup& setup, const std::vector<FlatRange>& ranges,
             const SharedMemoryGroup* near, MemoryLedger& ledger);

  /// Whether the whole model is one copy that every rank of the machine writes its part of and reads.
  bool one_copy() const { return one_copy_; }
  /// That copy: [padded_numel].
  TensorView copy() const { return shared_->of(0, 0); }

  /// This rank's shard, [shard_numel] (stage 0: [padded_numel]). With one copy for all it is there and nowhere else:
  /// then this is what show() packed.
  TensorView shard() const { return one_copy_ ? shown_.view() : shard_->view(); }
  void show();
  /// The reverse: into the copy.
  void take_shown();

  /// Where the parameters of a piece of the shard are.
  TensorView of(const Piece& piece) const {
    if (one_copy_) return part(copy(), piece.global_begin, piece.numel);
    return part(shard_->view(), piece.local_begin, piece.numel);
  }
  template <class T>
  Span<T> as(const Piece& piece) const {
    return {static_cast<T*>(of(piece).data), static_cast<std::size_t>(piece.numel)};
  }

  /// Whether shards of other ranks can be read, and the one of a rank of this machine, known by its place there.
  bool reads_shards() const { return shared_ && !one_copy_; }
  TensorView shard_at(int place) const { return shared_->of(place, 0); }

  /// Collective over the machine: what ranks wrote is there for the others.
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
