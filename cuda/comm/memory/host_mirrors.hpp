#pragma once
// Host copies of device buffers for observers, transferred before and after a phase.

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "common/base/span.hpp"
#include "cuda/device/runtime/raw_array.hpp"

namespace zeroproof::cuda {

/// A mirror exists after its first use. Without one nothing is copied. All copies between two
/// phases take one wait.
class HostMirrors {
 public:
  HostMirrors() = default;

  /// The host's copies of device buffers, filled from the buffers when they are created. Returns
  /// the same memory for the same buffer. Waits once, if one of them is new.
  std::vector<TensorView> of(Span<const TensorView> buffers);

  /// Copies mirrors that were written since they were filled back to the device. Waits only if
  /// there are any.
  void send_back();

  /// Fills all of them. Waits if there are any.
  void refill();

 private:
  struct Mirror {
    explicit Mirror(const TensorView& view)
        : buffer(view), now(view.num_bytes()), filled(static_cast<std::size_t>(view.num_bytes())) {}

    TensorView buffer;
    PinnedArray<std::byte> now;     ///< memory that the host reads and may write
    std::vector<std::byte> filled;  ///< its content when it was filled

    std::size_t size() const { return filled.size(); }
  };

  static void enqueue_fill(const Mirror& mirror);
  static void take(Mirror& mirror);

  std::map<std::pair<const void*, std::int64_t>, Mirror> mirrors_;  ///< by address and bytes
};

}  // namespace zeroproof::cuda
