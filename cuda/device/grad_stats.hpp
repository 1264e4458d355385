#pragma once

#include <cstddef>
#include <cstdint>

#include "common/contracts/grad_stats.hpp"
#include "cuda/device/runtime/raw_array.hpp"

namespace zeroproof::cuda::device {

/// Segments in device memory, split into parts of one thread block each, so that the whole device
/// shares a long segment; plus the buffers for their results. Reused by any number of successive
/// calls.
class DeviceSegments {
 public:
  /// At least one segment has an element. Enqueued on the current stream.
  /// Errors: unavailable if the device has no memory left.
  explicit DeviceSegments(Span<const GradSegment> segments);

  std::int64_t num_parts() const { return num_parts_; }
  const GradSegment* parts() const { return reinterpret_cast<const GradSegment*>(memory_.data()); }
  /// Holds num_parts() results and the scratch memory of the reduction.
  std::byte* scratch() const { return memory_.data() + scratch_begin_; }

 private:
  std::int64_t num_parts_ = 0;
  std::int64_t scratch_begin_ = 0;
  DeviceArray<std::byte> memory_{0};
};

/// The same over device memory: statistics of grad for every tensor that has a segment. Enqueued on
/// the current stream; allocates nothing and may be captured. Does not check that the segments are
/// within grad.
void enqueue_grad_stats(const float* grad, const DeviceSegments& segments, GradStats* stats);

}  // namespace zeroproof::cuda::device
