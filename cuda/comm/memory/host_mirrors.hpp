#pragma once
// What observers see of buffers that the host cannot reach: copies that come and go around a phase.

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "common/base/span.hpp"
#include "cuda/device/runtime/raw_array.hpp"

namespace zeroproof::cuda {

/// A mirror exists once somebody asked for it. Without one nothing is copied. All that is copied between two phases
/// takes one wait.
class HostMirrors {
 public:
  HostMirrors() = default;

  /// The host's copies of buffers that stay where they are; what is in a buffer now, the first time. The same memory
  /// for the same buffer. Waits once, if one of them is new.
  std::vector<TensorView> of(Span<const TensorView> buffers);

  /// Mirrors that somebody has written since they were filled go back. Waits only if there are such.
  void send_back();

  /// Fills all of them. Waits if there are any.
  void refill();

 private:
  struct Mirror {
    explicit Mirror(const TensorView& view)
        : buffer(view), now(view.num_bytes()), filled(static_cast<std::size_t>(view.num_bytes())) {}

    TensorView buffer;
    PinnedArray<std::byte> now;     ///< what the host sees and may write
    std::vector<std::byte> filled;  ///< what it was filled with

    std::size_t size() const { return filled.size(); }
  };

  static void enqueue_fill(const Mirror& mirror);
  static void take(Mirror& mirror);

  std::map<std::pair<const void*, std::int64_t>, Mirror> mirrors_;  ///< by address and bytes
};

}  // namespace zeroproof::cuda
