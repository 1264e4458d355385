#include "cuda/offload/offload_stream.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/device/runtime/memory.hpp"

namespace zeroproof::cuda {

OffloadStream::OffloadStream(const StateSplit& split, const float* grad, const TensorView& param,
                             bool overlap)
    : split_(split), grad_(grad), param_(param), overlap_(overlap) {
  const std::vector<StateSplit::Chunk>& chunks = split.chunks();
  const std::size_t slots = std::min<std::size_t>(overlap ? 2 : 1, chunks.size());
  for (std::size_t i = 0; i < slots; ++i) {
    const std::int64_t numel = chunks.front().numel;  // none is longer
    slots_.push_back({PinnedArray<float>(grad == nullptr ? 0 : numel),
                      PinnedArray<std::byte>(numel * num_bytes(param.dtype)),
                      {},
                      {}});
  }
}

OffloadStream::~OffloadStream() {
  try {
    const device::UseStream use(stream_);
    device::wait_for_stream();
  } catch (const std::exception&) {  // already reported to the thread that waited for the step
  }
}

void OffloadStream::begin() {
  device::Event before;
  before.record();
  stream_.wait_for(before);
  ++step_;
}

void OffloadStream::fetch(const StateSplit::Chunk& chunk) {
  Slot& slot = slot_of(chunk);
  device::wait_for_event(slot.left);
  const device::UseStream use(stream_);
  for (const StateSplit::Stretch& stretch : chunk.stretches) {
    device::enqueue_to_host(slot.grad.data() + stretch.place - chunk.begin,
                            grad_ + stretch.local_begin,
                            stretch.numel * static_cast<std::int64_t>(sizeof(float)));
  }
  slot.arrived.record();
  slot.chunk = chunk.number;
  slot.step = step_;
}

const float* OffloadStream::grads(const StateSplit::Chunk& chunk) {
  const Slot& slot = slot_of(chunk);
  ZP_CHECK(slot.chunk == chunk.number && slot.step == step_, ErrorCode::internal,
           "the gradient of chunk " + std::to_string(chunk.number) + " in step " +
               std::to_string(step_) + " was expected, but the slot holds that of chunk " +
               std::to_string(slot.chunk) + " in step " + std::to_string(slot.step),
           "state would be updated with a wrong gradient", "report this with the command line");
  device::wait_for_event(slot.arrived);
  return slot.grad.data();
}

std::byte* OffloadStream::params(const StateSplit::Chunk& chunk) {
  Slot& slot = slot_of(chunk);
  device::wait_for_event(slot.left);
  return slot.param.data();
}

void OffloadStream::send(const StateSplit::Chunk& chunk, const std::vector<Piece>& pieces) {
  Slot& slot = slot_of(chunk);
  const std::int64_t width = num_bytes(param_.dtype);
  const device::UseStream use(stream_);
  for (const Piece& piece : pieces) {
    device::enqueue_to_device(
        static_cast<std::byte*>(param_.data) + piece.local_begin * width,
        slot.param.data() + (split_.place(piece.local_begin) - chunk.begin) * width,
        piece.numel * width);
  }
  slot.left.record();
  if (!overlap_) device::wait_for_event(slot.left);
}

void OffloadStream::end() {
  device::Event after;
  {
    const device::UseStream use(stream_);
    after.record();
  }
  device::current_stream().wait_for(after);
}

std::int64_t OffloadStream::host_bytes() const {
  std::int64_t bytes = 0;
  for (const Slot& slot : slots_) bytes += slot.grad.num_bytes() + slot.param.num_bytes();
  return bytes;
}

}  // namespace zeroproof::cuda
