#pragma once

#include <cstdint>

namespace zeroproof::cuda {

/// Counts of the device calls of one host thread.
struct DeviceCalls {
  std::int64_t launches = 0;  ///< kernel launches, without the kernels inside launched graphs
  std::int64_t graph_launches = 0;
  std::int64_t copies = 0;       ///< in any direction, and fills
  std::int64_t allocations = 0;  ///< of device and pinned memory
  std::int64_t waits = 0;        ///< for a stream or an event; polls are not counted

  friend DeviceCalls operator-(const DeviceCalls& a, const DeviceCalls& b) {
    return {a.launches - b.launches, a.graph_launches - b.graph_launches, a.copies - b.copies,
            a.allocations - b.allocations, a.waits - b.waits};
  }
  friend bool operator==(const DeviceCalls&, const DeviceCalls&) = default;
};

}  // namespace zeroproof::cuda
