#pragma once

#include <cstddef>
#include <vector>

#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/stream.hpp"
#include "cuda/offload/state_split.hpp"

namespace zeroproof::cuda {

/// Gradients of chunks from a device to the host and parameters back, on a stream of their own, through two slots.
/// Whoever takes what is in a slot names the chunk and the step, and is refused anything else. A class of one's own may
/// write a function anew.
class OffloadStream {
 public:
  /// grad: fp32, and param, of the shard, on the device; grad null: the host reads it where it is, and no slot has room
  /// for it. The split outlives this.
  OffloadStream(const StateSplit& split, const float* grad, const TensorView& param, bool overlap);
  /// Waits until nothing is on its way.
  virtual ~OffloadStream();
  OffloadStream(const OffloadStream&) = delete;
  OffloadStream& operator=(const OffloadStream&) = delete;

  /// What the current stream was given so far comes before what the lane does.
  void begin();
  /// Gradients of a chunk are on their way; waits until what was in its slot has left.
  void fetch(const StateSplit::Chunk& chunk);
  /// They have arrived: [chunk.numel]. Errors: internal if they are not those of this chunk in this step.
  virtual const float* grads(const StateSplit::Chunk& chunk);
  /// Where the chunk's parameters go: [chunk.numel] in their dtype; waits as fetch() does.
  std::byte* params(const StateSplit::Chunk& chunk);
  /// Parameters of these pieces of the chunk go to the device.
  void send(const StateSplit::Chunk& chunk, const std::vector<Piece>& pieces);
  /// What the current stream is given from now on comes after all of it.
  void end();

  std::int64_t host_bytes() const;

 protected:
  struct Slot {
    PinnedArray<float> grad;
    PinnedArray<std::byte> param;
    device::Event arrived, left;
    std::int64_t chunk = -1;
    std::int64_t step = -1;  ///< of the gradients
  };
  Slot& slot_of(const StateSplit::Chunk& chunk) {
    return slots_[static_cast<std::size_t>(chunk.number) % slots_.size()];
  }

  const StateSplit& split_;
  const float* grad_;
  const TensorView param_;
  const bool overlap_;
  device::Stream stream_;
  std::vector<Slot> slots_;
  std::int64_t step_ = 0;
};

}  // namespace zeroproof::cuda
