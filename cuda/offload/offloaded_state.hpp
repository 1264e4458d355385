#pragma once
// Master and the rule's buffers of the offloaded elements of a rank, in any place, chunk by chunk.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "common/step/state_format.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/offload/state_split.hpp"

namespace zeroproof::cuda {

/// A buffer of state for elements, or for blocks of elements, in its stored form (R25).
struct OffloadedBuffer {
  BufferId id;
  DType dtype = DType::fp32;

  /// Bytes for that many elements; of whole blocks, where it has one value for each.
  std::int64_t values(std::int64_t numel) const {
    return is_state_scale(id) ? numel / state_block_numel : numel;
  }
  std::int64_t num_bytes(std::int64_t numel) const {
    return values(numel) * zeroproof::num_bytes(dtype);
  }
};

/// Master and the buffers of the rule, the widest ones first, so that every value is aligned to its
/// width.
std::vector<OffloadedBuffer> offloaded_buffers(const OptimizerSetup& setup);

/// Bytes per element of all buffers.
std::int64_t offloaded_bytes(const std::vector<OffloadedBuffer>& buffers, std::int64_t numel);

/// The buffers of a chunk, in memory of the host.
class ChunkState {
 public:
  void add(BufferId id, const TensorView& values) { buffers_.push_back({id, values}); }
  /// [chunk.numel], or a scale_inv for each of its blocks; empty for buffers the rule does not use.
  TensorView operator[](BufferId id) const;
  /// The fp32 buffers.
  host::FusedState fused() const;

 private:
  struct Buffer {
    BufferId id;
    TensorView values;
  };
  std::vector<Buffer> buffers_;
};

class OffloadedState {
 public:
  virtual ~OffloadedState() = default;
  OffloadedState() = default;
  OffloadedState(const OffloadedState&) = delete;
  OffloadedState& operator=(const OffloadedState&) = delete;

  /// Access of a visit to a chunk: reads it, changes it, or overwrites all of it.
  enum class Use { read, change, fill };
  /// state: NaN before it is filled.
  using Visit = std::function<void(const StateSplit::Chunk& chunk, const ChunkState& state)>;

  /// Calls visit for every chunk in increasing order, in this thread; when it returns or throws, no
  /// copy is in flight.
  /// Errors: io, damaged or internal of the storage, and those of visit. After an error in the
  /// middle, chunks belong to different steps.
  virtual void for_chunks(Use use, const Visit& visit) = 0;

  virtual std::int64_t host_bytes() const = 0;
  virtual std::int64_t file_bytes() const { return 0; }
};

using MakeOffloadedState = std::function<std::unique_ptr<OffloadedState>(
    const OptimizerSetup& setup, const StateSplit& split)>;

/// pinned: in memory that devices can access directly. The split outlives it, as for the file
/// below.
std::unique_ptr<OffloadedState> offload_to_host(const OptimizerSetup& setup,
                                                const StateSplit& split, bool pinned);

/// Unlinked files in Offload::folder, written in full when state is first loaded, so that a full
/// disk is reported before the first step. Errors: io.
std::unique_ptr<OffloadedState> offload_to_file(const OptimizerSetup& setup,
                                                const StateSplit& split);

/// Calls body(id, elements of the rank's flat numbering, of the shard, and their values in the
/// chunk) for every piece and buffer of a chunk, all of which are in fp32.
template <class Body>
void for_values(const std::vector<OffloadedBuffer>& buffers, const StateSplit& split,
                const StateSplit::Chunk& chunk, const ChunkState& state, const Body& body) {
  for (const Piece& piece : chunk.pieces.blocks()) {
    const std::int64_t at = split.place(piece.local_begin) - chunk.begin;
    for (const OffloadedBuffer& buffer : buffers) {
      float* const values = static_cast<float*>(state[buffer.id].data) + at;
      body(buffer.id, piece, Span<float>(values, static_cast<std::size_t>(piece.numel)));
    }
  }
}

}  // namespace zeroproof::cuda
