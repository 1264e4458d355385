#include "cuda/device/runtime/staging.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include "cuda/device/runtime/calls.hpp"

namespace zeroproof::cuda::device {

namespace {

/// A later launch of the graph would read other content in the pinned memory.
Staging& staging(std::int64_t num_bytes) {
  require_copy(num_bytes);
  if (capturing()) refuse_in_capture("a copy of host memory that is not pinned");
  return current_stream().kept<Staging>();
}

}  // namespace

Staging::~Staging() {
  forget();
  try {
    for (Half& half : halves_) empty(half);
  } catch (const std::
               exception&) {  // a persistent device error: the next call that can throw reports it
  }
}

/// The caller stops when this throws, and its host memory may be freed.
template <class Copy>
void Staging::in_stretches(std::int64_t num_bytes, const Copy& copy) try {
  if (num_bytes > 0 && memory_.count() == 0) memory_ = PinnedArray<std::byte>(2 * half_bytes);
  for (std::int64_t done = 0; done < num_bytes;) {
    const std::int64_t length = std::min(num_bytes - done, half_bytes);
    if (halves_[now_].taken + length > half_bytes) {
      now_ = 1 - now_;
      empty(halves_[now_]);
    }
    Half& half = halves_[now_];
    copy(half, memory_.data() + now_ * half_bytes + half.taken, done, length);
    half.used.record();
    half.taken += length;
    done += length;
  }
} catch (...) {
  forget();
  throw;
}

void Staging::to_device(void* device, const void* host, std::int64_t num_bytes) {
  in_stretches(num_bytes, [&](Half&, std::byte* pinned, std::int64_t begin, std::int64_t length) {
    std::memcpy(pinned, static_cast<const std::byte*>(host) + begin,
                static_cast<std::size_t>(length));
    enqueue_to_device(static_cast<std::byte*>(device) + begin, pinned, length);
  });
}

void Staging::to_host(void* host, const void* device, std::int64_t num_bytes) {
  in_stretches(num_bytes,
               [&](Half& half, std::byte* pinned, std::int64_t begin, std::int64_t length) {
                 enqueue_to_host(pinned, static_cast<const std::byte*>(device) + begin, length);
                 half.targets.push_back({static_cast<std::byte*>(host) + begin, pinned, length});
               });
}

void Staging::empty(Half& half) {
  if (half.taken > 0) wait_for_event(half.used);
  for (const Part& part : half.targets)
    std::memcpy(part.host, part.pinned, static_cast<std::size_t>(part.num_bytes));
  half.targets.clear();
  half.taken = 0;
}

void Staging::arrived() {
  for (Half& half : halves_) {
    half.taken = 0;
    empty(half);
  }
}

void Staging::forget() {
  for (Half& half : halves_) half.targets.clear();
}

void stage_to_device(void* device, const void* host, std::int64_t num_bytes) {
  staging(num_bytes).to_device(device, host, num_bytes);
}

void stage_to_host(void* host, const void* device, std::int64_t num_bytes) {
  staging(num_bytes).to_host(host, device, num_bytes);
}

}  // namespace zeroproof::cuda::device
