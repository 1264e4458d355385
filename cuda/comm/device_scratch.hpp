#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>

#include "common/base/span.hpp"
#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/stream.hpp"

namespace zeroproof::cuda {

/// Device memory for one piece of work after another. It grows to the largest request and stays.
///
/// The pieces may be enqueued on different streams that nothing else orders: each waits for the one before. In a graph
/// whoever launches it sees to that.
class DeviceScratch {
 public:
  DeviceScratch() = default;
  ~DeviceScratch() {
    if (memory_.count() == 0) return;
    try {
      device::current_stream().wait_for(used_);
    } catch (
        const std::
            exception&) {  // an error of the device that lasts: the next call that can reports it
    }
  }
  DeviceScratch(const DeviceScratch&) = delete;
  DeviceScratch& operator=(const DeviceScratch&) = delete;

  /// num_bytes for what the current stream is given until used(). What was in it is gone.
  Span<std::byte> take(std::int64_t num_bytes) {
    if (!device::capturing()) device::current_stream().wait_for(used_);
    if (num_bytes > memory_.count()) grow(num_bytes);
    return {memory_.data(), static_cast<std::size_t>(num_bytes)};
  }

  /// What the current stream has been given so far is all that uses it.
  void used() {
    if (!device::capturing()) used_.record();
  }

 private:
  void grow(std::int64_t num_bytes) {
    memory_ = DeviceArray<std::byte>(0);  // before there is another one
    memory_ = DeviceArray<std::byte>(num_bytes);
    used_.record();  // another stream may release it, even if the piece of work comes to nothing
  }

  DeviceArray<std::byte> memory_{0};
  device::Event used_;
};

}  // namespace zeroproof::cuda
