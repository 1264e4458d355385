#include "cuda/comm/memory/host_mirrors.hpp"

#include <cstring>

#include "cuda/device/runtime/stream.hpp"

namespace zeroproof::cuda {

std::vector<TensorView> HostMirrors::of(Span<const TensorView> buffers) {
  std::vector<Mirror*> filling;
  std::vector<TensorView> seen;
  for (const TensorView& buffer : buffers) {
    const auto [at, is_new] = mirrors_.try_emplace({buffer.data, buffer.num_bytes()}, buffer);
    Mirror& mirror = at->second;
    seen.push_back({mirror.now.data(), buffer.dtype, buffer.numel});
    if (!is_new || mirror.size() == 0) continue;
    enqueue_fill(mirror);
    filling.push_back(&mirror);
  }
  if (!filling.empty()) device::wait_for_stream();
  for (Mirror* mirror : filling) take(*mirror);
  return seen;
}

void HostMirrors::enqueue_fill(const Mirror& mirror) {
  device::enqueue_to_host(mirror.now.data(), mirror.buffer.data, mirror.buffer.num_bytes());
}

void HostMirrors::take(Mirror& mirror) {
  if (mirror.size() > 0) std::memcpy(mirror.filled.data(), mirror.now.data(), mirror.size());
}

void HostMirrors::send_back() {
  bool sent = false;
  for (auto& [place, mirror] : mirrors_) {
    if (mirror.size() == 0 ||
        std::memcmp(mirror.now.data(), mirror.filled.data(), mirror.size()) == 0)
      continue;
    device::enqueue_to_device(mirror.buffer.data, mirror.now.data(), mirror.buffer.num_bytes());
    take(mirror);
    sent = true;
  }
  if (sent) device::wait_for_stream();  // the host may write them again
}

void HostMirrors::refill() {
  if (mirrors_.empty()) return;
  for (const auto& [place, mirror] : mirrors_) enqueue_fill(mirror);
  device::wait_for_stream();
  for (auto& [place, mirror] : mirrors_) take(mirror);
}

}  // namespace zeroproof::cuda
