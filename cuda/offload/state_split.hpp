#pragma once
// Which elements of a rank are offloaded, and where the state of every element is: in the rank's
// own buffers or in the offloaded ones.

#include <cstdint>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/host/base/piece_loop.hpp"

namespace zeroproof::cuda {

/// The offloaded elements, in the numbering of the shard (Piece::local_begin). Padding goes with
/// the elements before it. Both parts are packed: their ranges follow one another in increasing
/// local order.
///
/// Where state has scales (R25) no block is in both parts, or in two chunks: the offloaded part is
/// rounded down to whole blocks, blocks shared with other ranks stay resident, and so does padding
/// before the first element. In the offloaded part blocks then start at multiples of
/// state_block_numel, with gaps before them.
class StateSplit {
 public:
  /// pieces: of the ranges. Takes floor(fraction * N) of the N elements of the pieces in flat
  /// order, or whole tensors in the order of their param groups, as long as those taken before have
  /// fewer elements than fraction * N.
  StateSplit(const OptimizerSetup& setup, const std::vector<FlatRange>& ranges);

  /// A range of the shard that is in one part.
  struct Stretch {
    std::int64_t local_begin = 0;
    std::int64_t numel = 0;  ///< padding included
    std::int64_t place = 0;  ///< of its first element, in its part
    bool offloaded = false;
  };
  const std::vector<Stretch>& stretches() const { return stretches_; }

  std::int64_t resident_numel() const { return resident_numel_; }
  std::int64_t offloaded_numel() const { return offloaded_numel_; }  ///< with gaps
  std::int64_t numel() const { return shard_numel_; }

  /// Whole pages of a gradient sum that have offloaded elements, neighbours joined: local elements,
  /// in increasing order.
  std::vector<FlatRange> grad_pages(std::int64_t page_numel) const;

  /// Position of a shard element within its part.
  std::int64_t place(std::int64_t local) const;

  const host::PieceLoop& resident() const { return resident_; }
  /// Pieces split at the boundaries of the parts.
  const std::vector<Piece>& resident_pieces() const { return resident_pieces_; }

  /// Neighbouring elements of the offloaded part that are copied and updated together.
  struct Chunk {
    std::int64_t number = 0;
    std::int64_t begin = 0;  ///< its first element, in the offloaded part
    std::int64_t numel = 0;  ///< padding and gaps included
    host::PieceLoop pieces;
    std::vector<Stretch> stretches;  ///< of the chunk; place is in the offloaded part
  };
  const std::vector<Chunk>& chunks() const { return chunks_; }

 private:
  void cut(const std::vector<Piece>& offloaded, const std::vector<Piece>& all);
  void add_stretch(std::int64_t begin, std::int64_t end, bool offloaded);
  void make_chunks(std::int64_t chunk_numel, const std::vector<Piece>& offloaded);
  std::int64_t whole_units(std::int64_t numel) const { return (numel + unit_ - 1) / unit_ * unit_; }

  const std::int64_t unit_;  ///< elements that are not split: those of a block, or one
  const std::int64_t shard_numel_;
  std::vector<Stretch> stretches_;
  std::int64_t resident_numel_ = 0;
  std::int64_t offloaded_numel_ = 0;
  std::vector<Piece> resident_pieces_;
  host::PieceLoop resident_{{}};
  std::vector<Chunk> chunks_;
};

/// Elements whose state is in the buffers of a rank with these ranges: all of them without a split.
std::vector<Piece> resident_pieces(const FlatLayout& layout, const std::vector<FlatRange>& ranges,
                                   const StateSplit* split);

}  // namespace zeroproof::cuda
