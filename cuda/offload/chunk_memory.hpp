#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/offload/offloaded_state.hpp"

namespace zeroproof::cuda {

/// Host memory for a number of elements of every buffer of a rule, one buffer after another.
/// Initialized to NaN.
class ChunkMemory {
 public:
  ChunkMemory(std::vector<OffloadedBuffer> buffers, std::int64_t numel, bool pinned)
      : buffers_(std::move(buffers)), num_bytes_(offloaded_bytes(buffers_, numel)) {
    if (pinned) {
      pinned_.emplace(num_bytes_);
    } else {
      plain_ = GuardedBuffer(num_bytes_, DType::e8m0);  // a byte
    }
    poison();
  }

  std::byte* data() const {
    return pinned_ ? pinned_->data() : static_cast<std::byte*>(plain_.data());
  }
  std::int64_t num_bytes() const { return num_bytes_; }
  void poison() const {
    if (num_bytes() > 0) std::memset(data(), 0xFF, static_cast<std::size_t>(num_bytes()));
  }
  /// False if memory outside of it was overwritten; pinned memory has no red zones.
  bool intact() const { return plain_.guards_intact(); }

  /// The buffers' elements from `begin` on. stride: elements between the starts of two buffers.
  ChunkState part(std::int64_t begin, std::int64_t numel, std::int64_t stride) const {
    ChunkState state;
    std::byte* at = data();
    for (const OffloadedBuffer& buffer : buffers_) {
      state.add(buffer.id, {at + buffer.num_bytes(begin), buffer.dtype, buffer.values(numel)});
      at += buffer.num_bytes(stride);
    }
    return state;
  }

 private:
  std::vector<OffloadedBuffer> buffers_;
  std::int64_t num_bytes_;
  GuardedBuffer plain_;
  std::optional<PinnedArray<std::byte>> pinned_;
};

}  // namespace zeroproof::cuda
