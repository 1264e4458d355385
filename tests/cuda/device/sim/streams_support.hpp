#pragma once
// Orders, small kernels and memory for tests of simulated streams.

#include <doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <functional>
#include <string>

#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "cuda/device/sim/streams.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ZP_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ZP_SANITIZED 1
#endif
#endif

namespace zeroproof::sim_test {

using cuda::sim::StreamOrder;

#if defined(ZP_SANITIZED)
inline constexpr bool sanitized = true;  // signals are answered there
#else
inline constexpr bool sanitized = false;
#endif

inline constexpr int block = 64;
inline constexpr StreamOrder both_orders[] = {StreamOrder::awaited_first,
                                              StreamOrder::awaited_last};
inline constexpr StreamOrder every_order[] = {StreamOrder::awaited_first, StreamOrder::awaited_last,
                                              StreamOrder::early};

class UseOrder {
 public:
  explicit UseOrder(StreamOrder order) : before_(cuda::sim::stream_order()) {
    cuda::sim::set_stream_order(order);
  }
  ~UseOrder() { cuda::sim::set_stream_order(before_); }
  UseOrder(const UseOrder&) = delete;
  UseOrder& operator=(const UseOrder&) = delete;

 private:
  StreamOrder before_;
};

inline ZP_KERNEL store_kernel(unsigned* target, unsigned value) {
  if (cuda::device::threadIdx.x == 0) *target = value;
}

inline ZP_KERNEL load_kernel(const unsigned* source, unsigned* target) {
  if (cuda::device::threadIdx.x == 0) *target = *source;
}

inline ZP_KERNEL overrun_kernel(unsigned* values) { values[cuda::device::threadIdx.x] = 7; }

/// One number on the device, which all streams may use.
class DeviceWord {
 public:
  explicit DeviceWord(unsigned value)
      : data_(static_cast<unsigned*>(cuda::device::device_allocate(sizeof(unsigned)))) {
    cuda::device::launch(store_kernel, 1, block, data_, value);
    cuda::device::wait_for_stream();
  }
  ~DeviceWord() { cuda::device::device_release(data_); }
  DeviceWord(const DeviceWord&) = delete;
  DeviceWord& operator=(const DeviceWord&) = delete;
  unsigned* data() const { return data_; }

 private:
  unsigned* data_;
};

class PinnedBytes {
 public:
  explicit PinnedBytes(std::int64_t num_bytes)
      : data_(static_cast<unsigned char*>(cuda::device::pinned_allocate(num_bytes))),
        num_bytes_(num_bytes) {
    std::fill_n(data_, num_bytes, static_cast<unsigned char>(0));
  }
  ~PinnedBytes() { cuda::device::pinned_release(data_); }
  PinnedBytes(const PinnedBytes&) = delete;
  PinnedBytes& operator=(const PinnedBytes&) = delete;
  unsigned char* data() const { return data_; }
  bool holds_only(unsigned char byte) const {
    return std::count(data_, data_ + num_bytes_, byte) == num_bytes_;
  }

 private:
  unsigned char* data_;
  std::int64_t num_bytes_;
};

/// Runs body with this stream as the current one.
inline void on(cuda::device::Stream& stream, const std::function<void()>& body) {
  const cuda::device::UseStream use(stream);
  body();
}

inline void wait_for(cuda::device::Stream& stream) {
  on(stream, [] { cuda::device::wait_for_stream(); });
}

/// Enqueues work that appends its name.
inline void enqueue_name(std::string& names, char name) {
  cuda::sim::enqueue([&names, name] { names += name; });
}

/// Number of stream orders (of three) with a wrong result.
inline int num_wrong(const std::function<bool()>& right) {
  int wrong = 0;
  for (const StreamOrder order : every_order) {
    const UseOrder use(order);
    wrong += right() ? 0 : 1;
  }
  return wrong;
}

/// The signal that ends a child process with this body; 0 if none does.
inline int signal_of(const std::function<void()>& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    std::signal(SIGSEGV, SIG_DFL);  // doctest's own would report a failure
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

inline void read_byte(const void* data) {
  static_cast<void>(*static_cast<const volatile unsigned char*>(data));
}
inline void write_byte(void* data) { *static_cast<volatile unsigned char*>(data) = 1; }

}  // namespace zeroproof::sim_test
