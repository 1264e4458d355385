#pragma once
// The scales of parameters in 8 bits on one rank (R24): arrays over the blocks of all tensors,
// equal on every rank. Columns that have scales of their own have such arrays too.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/host/base/piece_loop.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"

namespace zeroproof::cuda {

class ParamScales {
 public:
  enum class Of : std::uint8_t { params, columns };

  /// Empty unless the parameters (or columns) have scales of their own. ranges: elements whose
  /// state is on the rank. The setup and the ledger, in whose space the arrays are, outlive this.
  ParamScales(const OptimizerSetup& setup, Of of, const std::vector<FlatRange>& ranges,
              MemoryLedger& ledger);

  explicit operator bool() const { return on_; }
  bool of_columns() const { return of_ == Of::columns; }
  const TensorBlocks& blocks() const { return blocks_; }

  Span<std::uint32_t> amax() const { return amax_->as<std::uint32_t>(); }  // [num_blocks]
  Span<std::uint32_t> history() const {
    return history_->as<std::uint32_t>();
  }                                                                  // [num_blocks * slots()]
  Span<float> scale() const { return scale_->as<float>(); }          // [num_blocks]
  Span<float> scale_inv() const { return scale_inv_->as<float>(); }  // [num_blocks]
  /// Partial maxima of amax(): of this rank, then of all. [num_blocks]
  const GuardedBuffer& collected() const { return *collected_; }
  /// Largest magnitudes of the offloaded masters, in host memory: the initial values when the
  /// others are collected. [num_blocks], or empty without offload.
  Span<std::uint32_t> elsewhere() { return elsewhere_; }
  Span<const std::uint32_t> elsewhere() const { return elsewhere_; }
  /// recompute: computes elsewhere() when a state is loaded; for columns, from masters that the codes
  /// of parameters may have changed by then.
  void set_recompute_elsewhere(std::function<void()> recompute) {
    recompute_elsewhere_ = std::move(recompute);
  }
  std::int64_t host_bytes() const {
    return numel(elsewhere()) * static_cast<std::int64_t>(sizeof(std::uint32_t));
  }
  /// Copies of scale() and scale_inv() in host memory.
  std::vector<float> host_scale() const { return on_host(*scale_); }
  std::vector<float> host_scale_inv() const { return on_host(*scale_inv_); }
  /// The range of a tensor's blocks in an array over all blocks.
  template <class T>
  Span<T> of_tensor(Span<T> array, std::int64_t tensor) const {
    return array.subspan(blocks_.first_block(tensor), blocks_.grid(tensor).num_blocks());
  }
  std::int64_t slots() const { return slots_; }  ///< of the history of a block; 0 without

  /// The rank's elements as runs, each contiguous in its undistributed tensor: tensor_begin is an
  /// index into that tensor.
  const host::PieceLoop& runs() const { return loop_; }

  /// Calls body(run) for the runs of a range of the shard.
  template <class Body>
  void for_runs(const Piece& stretch, const Body& body) const {
    const std::int64_t end = stretch.local_begin + stretch.numel;
    auto run = std::ranges::upper_bound(runs_, stretch.local_begin, {}, &Piece::local_begin);
    if (run != runs_.begin()) --run;
    for (; run != runs_.end() && run->local_begin < end; ++run) {
      const std::int64_t from = std::max<std::int64_t>(stretch.local_begin - run->local_begin, 0);
      if (from < run->numel) body(run->part(from, end - run->local_begin - from));
    }
  }

  /// Calls body(first, count) for blocks of tensors with takes_part(tensor), neighbours together.
  template <class TakesPart, class Body>
  void for_blocks(const TakesPart& takes_part, const Body& body) const {
    std::int64_t first = 0, end = 0;
    for (std::int64_t t = 0; t < blocks_.num_tensors(); ++t) {
      const std::int64_t next = blocks_.first_block(t);
      const bool joins = takes_part(t);
      if ((!joins || next != end) && end > first) body(first, end - first);
      if (!joins || next != end) first = next;
      end = next + (joins ? blocks_.grid(t).num_blocks() : 0);
    }
    if (end > first) body(first, end - first);
  }

  /// Takes scales and histories of a loaded state, or resets them for an initial state, for which
  /// it returns false; amax becomes 0. For columns every state is initial. Calls `recompute` if it is
  /// set.
  bool load(const FullState& state);

  /// Views for observers of phase cast, before the parameters.
  std::vector<ExposedBuffer> exposed() const;
  /// Name of an array whose red zone was overwritten, "" if none was.
  std::string_view damaged_guard() const;

 private:
  std::vector<float> on_host(const GuardedBuffer& array) const;

  const OptimizerSetup& setup_;
  const MemorySpace& space_;
  const Of of_;
  const bool on_;
  const std::int64_t slots_;
  TensorBlocks blocks_;
  std::vector<Piece> runs_;
  host::PieceLoop loop_;
  CountedBuffer amax_, history_, scale_, scale_inv_, collected_;
  std::vector<std::uint32_t> elsewhere_;
  std::function<void()> recompute_elsewhere_;  ///< null: no-op
};

/// All tensors of a loaded state take part.
inline bool every_tensor(std::int64_t /*tensor*/) { return true; }

}  // namespace zeroproof::cuda
