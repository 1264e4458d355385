// A simulated device has no CUB.

#include "verification/bench/device/unordered_norm.hpp"

namespace zeroproof::verification::bench {

UnorderedNorm::UnorderedNorm(const float* values, std::int64_t numel)
    : values_(values), numel_(numel), sum_(cuda::device_space(), 0), scratch_(cuda::device_space(), 0) {
  static_cast<void>(values_);
  static_cast<void>(numel_);
}
bool UnorderedNorm::available() { return false; }
void UnorderedNorm::enqueue() const {}

}  // namespace zeroproof::verification::bench
