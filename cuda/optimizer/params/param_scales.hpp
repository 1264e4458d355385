#pragma once
// The scales of parameters in 8 bits on one rank (R24): arrays over the blocks of all tensors, alike on every rank.
// Columns that have scales of their own have such arrays too.

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

  /// Has nothing unless what it is of has scales of its own. ranges: what the rank keeps state for. The setup and the
  /// ledger, in whose space the arrays are, outlive this.
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
  /// Largest magnitudes on their way to amax(): of this rank, then of all. [num_blocks]
  const GuardedBuffer& collected() const { return *collected_; }
  /// Largest magnitudes of the masters that are offloaded, in memory of the host: whoever collects the others begins
  /// with these. [num_blocks], or empty where none are.
  Span<std::uint32_t> elsewhere() { return elsewhere_; }
  Span<const std::uint32_t> elsewhere() const { return elsewhere_; }
  /// look: makes elsewhere() what it has to be when a state is loaded; of columns, whose masters are those that the
  /// codes of parameters may have changed by then.
  void look_elsewhere_with(std::function<void()> look) { look_elsewhere_ = std::move(look); }
  std::int64_t host_bytes() const {
    return numel(elsewhere()) * static_cast<std::int64_t>(sizeof(std::uint32_t));
  }
  /// Copies of scale() and scale_inv() for the host.
  std::vector<float> host_scale() const { return on_host(*scale_); }
  std::vector<float> host_scale_inv() const { return on_host(*scale_inv_); }
  /// A tensor's blocks of an array over all blocks.
  template <class T>
  Span<T> of_tensor(Span<T> array, std::int64_t tensor) const {
    return array.subspan(static_cast<std::size_t>(blocks_.first_block(tensor)),
                         static_cast<std::size_t>(blocks_.grid(tensor).num_blocks()));
  }
  std::int64_t slots() const { return slots_; }  ///< of the history of a block; 0 without

  /// The rank's elements where each run is one stretch of its undistributed tensor: tensor_begin counts in there.
  const host::PieceLoop& runs() const { return loop_; }

  /// Calls body(run) for the runs of a stretch of the shard.
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

  /// Calls body(first, count) for blocks of tensors that takes_part(tensor), neighbours together.
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

  /// Takes scales and histories of a state, or those of a beginning, for which it returns false; amax becomes 0. For
  /// columns every state is a beginning. Looks elsewhere, if it is to.
  bool load(const FullState& state);

  /// What observers see of phase cast, in front of the parameters.
  std::vector<ExposedBuffer> exposed() const;
  /// Name of an array whose red zone was overwritten, "" if none.
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
  std::function<void()> look_elsewhere_;  ///< null: nothing is to be done
};

/// Of a state that was loaded all tensors take part.
inline bool every_tensor(std::int64_t /*tensor*/) { return true; }

/// How many words ranks join in one call: half a MiB.
inline constexpr std::int64_t most_joined_words = std::int64_t{1} << 16;

}  // namespace zeroproof::cuda
