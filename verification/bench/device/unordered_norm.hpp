#pragma once
// A norm as others take it: fp32 squares, added in the order that suits the device.

#include <cstdint>

#include "cuda/comm/memory/space_array.hpp"

namespace zeroproof::verification::bench {

/// CUB's reduction. On a simulated device there is none.
class UnorderedNorm {
 public:
  /// values: [numel] in device memory, which outlives this.
  UnorderedNorm(const float* values, std::int64_t numel);

  static bool available();
  /// Enqueues the sum of squares on the current stream.
  void enqueue() const;

 private:
  const float* values_;
  std::int64_t numel_;
  cuda::SpaceArray<float> sum_;
  cuda::SpaceArray<std::byte> scratch_;
};

}  // namespace zeroproof::verification::bench
