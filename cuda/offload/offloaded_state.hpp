#pragma once
// Master and the rule's buffers of the offloaded elements of a rank, wherever they lie, chunk by chunk.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/offload/state_split.hpp"

namespace zeroproof::cuda {

class OffloadedState {
 public:
  virtual ~OffloadedState() = default;
  OffloadedState() = default;
  OffloadedState(const OffloadedState&) = delete;
  OffloadedState& operator=(const OffloadedState&) = delete;

  /// What a visit does with a chunk: only reads it; changes it; or writes all of it, over whatever was there.
  enum class Use { read, change, fill };
  /// state: [chunk.numel] of every buffer the rule keeps, in memory of the host; NaN before it is filled.
  using Visit = std::function<void(const StateSplit::Chunk& chunk, const host::FusedState& state)>;

  /// Calls visit for every chunk in increasing order, in this thread; when it returns or throws, nothing is on its way.
  /// Errors: io, damaged or internal of the place, and those of visit. After one of them in the middle, chunks are of
  /// different steps.
  virtual void for_chunks(Use use, const Visit& visit) = 0;

  virtual std::int64_t host_bytes() const = 0;
  virtual std::int64_t file_bytes() const { return 0; }
};

/// Buffers that a rank keeps for an element: master, and those of the rule.
std::vector<BufferId> offloaded_buffers(const OptimizerHyper& hyper);

/// The elements of a buffer in a chunk or a slot; empty for one that the rule does not keep.
Span<float> buffer_of(const host::FusedState& state, BufferId id);

/// pinned: in memory that devices copy from and to by themselves. The split outlives it, as in what the other makes.
std::unique_ptr<OffloadedState> offload_to_host(const OptimizerSetup& setup, const StateSplit& split,
                                                bool pinned);

/// One file without a name in Offload::folder, written in full when state is first loaded, so that a disk that is full
/// says so before there is a step. Errors: io.
std::unique_ptr<OffloadedState> offload_to_file(const OptimizerSetup& setup, const StateSplit& split);

/// Calls body(id, elements of the rank's flat numbering, of the shard, and their values in the chunk) for every piece
/// and buffer of a chunk.
template <class Body>
void for_values(const std::vector<BufferId>& ids, const StateSplit& split, const StateSplit::Chunk& chunk,
                const host::FusedState& state, const Body& body) {
  for (const Piece& piece : chunk.pieces.blocks()) {
    const auto at = static_cast<std::size_t>(split.place(piece.local_begin) - chunk.begin);
    for (const BufferId id : ids) {
      body(id, piece, buffer_of(state, id).subspan(at, static_cast<std::size_t>(piece.numel)));
    }
  }
}

}  // namespace zeroproof::cuda
