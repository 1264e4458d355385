#pragma once
// Copies between a device and host memory that is not pinned, on their way.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/stream.hpp"

namespace zeroproof::cuda::device {

/// Pinned memory of one stream that such copies go through, in two halves: one is filled while the device is busy with
/// the other. Kept by the stream, which is the current one in every call.
class Staging {
 public:
  Staging() = default;
  /// Waits until the device is done with the memory.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void to_device(void* device, const void* host, std::int64_t num_bytes);
  void to_host(void* host, const void* device, std::int64_t num_bytes);

  /// Everything that the stream was given is done: fills what was asked for, and all pinned memory is free.
  void arrived();
  /// Fills nothing any more of what was asked for.
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
    Event used;               ///< behind the last copy from or to it
    std::vector<Part> asked;  ///< for, by to_host()
  };

  /// Calls copy(half, pinned memory, where it begins in the whole, bytes) for stretches that fit.
  template <class Copy>
  void in_stretches(std::int64_t num_bytes, const Copy& copy);
  void empty(Half& half);

  PinnedArray<std::byte> memory_{0};  ///< both halves, from the first copy on
  Half halves_[2];
  int now_ = 0;
};

}  // namespace zeroproof::cuda::device
