#pragma once
// Copies between a device and host memory that is not pinned.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/stream.hpp"

namespace zeroproof::cuda::device {

/// Pinned memory of one stream for such copies, in two halves: the host fills one while the device
/// uses the other. Owned by the stream, which must be the current stream of every call.
class Staging {
 public:
  Staging() = default;
  /// Waits until the device no longer uses the memory.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void to_device(void* device, const void* host, std::int64_t num_bytes);
  void to_host(void* host, const void* device, std::int64_t num_bytes);

  /// Called when all work of the stream is done: fills the requested targets and marks all pinned
  /// memory as free.
  void arrived();
  /// Drops the requested targets without filling them.
  void forget();

  static constexpr std::int64_t half_bytes = std::int64_t{1} << 20;

 private:
  struct Part {
    void* host;
    const std::byte* pinned;
    std::int64_t num_bytes;
  };
  struct Half {
    std::int64_t taken = 0;
    Event used;                 ///< recorded after the last copy from or to it
    std::vector<Part> targets;  ///< requested by to_host()
  };

  /// Calls copy(half, pinned memory, offset in the whole, bytes) for ranges that fit.
  template <class Copy>
  void in_stretches(std::int64_t num_bytes, const Copy& copy);
  void empty(Half& half);

  PinnedArray<std::byte> memory_{0};  ///< both halves, allocated by the first copy
  Half halves_[2];
  int now_ = 0;
};

}  // namespace zeroproof::cuda::device
