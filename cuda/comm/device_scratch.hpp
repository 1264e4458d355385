#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>

#include "common/base/span.hpp"
#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/stream.hpp"

namespace zeroproof::cuda {

/// Device memory for one piece of work after another. It grows to the largest request and keeps
/// that size.
///
/// The pieces may be enqueued on different unordered streams: each waits for the one before. Within
/// a graph, the code that launches it has to ensure this.
class DeviceScratch {
 public:
  DeviceScratch() = default;
  ~DeviceScratch() {
    if (memory_.count() == 0) return;
    try {
      device::current_stream().wait_for(used_);
    } catch (
        const std::
            exception&) {  // a persistent device error: the next call that can throw reports it
    }
  }
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;

  /// num_bytes for work of the current stream until used(). The previous content is lost.
  Span<std::byte> take(std::int64_t num_bytes) {
    if (!device::capturing()) device::current_stream().wait_for(used_);
    if (num_bytes > memory_.count()) grow(num_bytes);
    return {memory_.data(), static_cast<std::size_t>(num_bytes)};
  }

  /// Only work that the current stream has so far uses the memory.
  void used() {
    if (!device::capturing()) used_.record();
  }

 private:
  void grow(std::int64_t num_bytes) {
    memory_ = DeviceArray<std::byte>(0);  // free the old memory before allocating
    memory_ = DeviceArray<std::byte>(num_bytes);
    used_.record();  // another stream may release it, even if this piece of work fails
  }

  DeviceArray<std::byte> memory_{0};
  device::Event used_;
};

}  // namespace zeroproof::cuda
