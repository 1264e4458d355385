#pragma once

#include <cstddef>
#include <vector>

#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/stream.hpp"
#include "cuda/offload/state_split.hpp"

namespace zeroproof::cuda {

/// Copies gradients of chunks from a device to the host and parameters back, on a separate stream,
/// through two slots. Access to a slot names the chunk and the step, and any other content is an
/// error. Subclasses may override single functions.
class OffloadStream {
 public:
  /// grad: fp32, and param, of the shard, on the device; grad null: the host reads it in place, and
  /// slots have no memory for it. The split outlives this.
  OffloadStream(const StateSplit& split, const float* grad, const TensorView& param, bool overlap);
  /// Waits until no copy is in flight.
  virtual ~OffloadStream();
  OffloadStream(const OffloadStream&) = delete;
  OffloadStream& operator=(const OffloadStream&) = delete;

  /// Work already enqueued on the current stream comes before the work of this stream.
  void begin();
  /// Starts the copy of a chunk's gradients; waits until the previous copy out of its slot is done.
  void fetch(const StateSplit::Chunk& chunk);
  /// Waits for the gradients and returns them: [chunk.numel]. Errors: internal if they are not
  /// those of this chunk in this step.
  virtual const float* grads(const StateSplit::Chunk& chunk);
  /// Memory for the chunk's parameters: [chunk.numel] in their dtype; waits as fetch() does.
  std::byte* params(const StateSplit::Chunk& chunk);
  /// Starts the copy of the parameters of these pieces of the chunk to the device.
  void send(const StateSplit::Chunk& chunk, const std::vector<Piece>& pieces);
  /// Work enqueued on the current stream from now on comes after all work of this stream.
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
