#pragma once
// Memory and common checks for tests of streams, events, graphs and copies.

#include <doctest.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::device_test {

using Bytes = std::vector<unsigned char>;

inline constexpr std::int64_t odd_sizes[] = {1, 3, 255, 256, 4097, (1 << 20) + 1};

/// Differs by position and seed.
inline Bytes numbered(std::int64_t num_bytes, int seed) {
  Bytes bytes(static_cast<std::size_t>(num_bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] =
        static_cast<unsigned char>(131 * i + i / 256 + 17 * static_cast<std::size_t>(seed) + 1);
  }
  return bytes;
}

/// Copies from and to any host memory on the current stream.
inline void put(void* device, const void* host, std::int64_t num_bytes) {
  cuda::device::stage_to_device(device, host, num_bytes);
  cuda::device::wait_for_stream();
}
inline void get(void* host, const void* device, std::int64_t num_bytes) {
  cuda::device::stage_to_host(host, device, num_bytes);
  cuda::device::wait_for_stream();
}

/// Device memory that all streams may use.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::int64_t num_bytes)
      : data_(static_cast<unsigned char*>(cuda::device::device_allocate(num_bytes))),
        num_bytes_(num_bytes) {
    cuda::device::wait_for_stream();
  }
  ~DeviceBytes() { cuda::device::device_release(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  unsigned char* data() const { return data_; }
  Bytes bytes() const {
    Bytes bytes(static_cast<std::size_t>(num_bytes_));
    get(bytes.data(), data_, num_bytes_);
    return bytes;
  }

 private:
  unsigned char* data_;
  std::int64_t num_bytes_;
};

class PinnedBytes {
 public:
  explicit PinnedBytes(const Bytes& bytes)
      : data_(static_cast<unsigned char*>(
            cuda::device::pinned_allocate(static_cast<std::int64_t>(bytes.size())))),
        num_bytes_(bytes.size()) {
    set(bytes);
  }
  explicit PinnedBytes(std::int64_t num_bytes)
      : PinnedBytes(Bytes(static_cast<std::size_t>(num_bytes))) {}
  ~PinnedBytes() { cuda::device::pinned_release(data_); }
  PinnedBytes(const PinnedBytes&) = delete;
  PinnedBytes& operator=(const PinnedBytes&) = delete;

  unsigned char* data() const { return data_; }
  Bytes bytes() const { return {data_, data_ + num_bytes_}; }
  void set(const Bytes& bytes) { std::memcpy(data_, bytes.data(), num_bytes_); }

 private:
  unsigned char* data_;
  std::size_t num_bytes_;
};

/// Runs body with this stream as the current one.
inline void on(cuda::device::Stream& stream, const std::function<void()>& body) {
  const cuda::device::UseStream use(stream);
  body();
}

inline void in_a_thread(const std::function<void()>& body) {
  std::thread([&] {
    try {
      body();
    } catch (const std::exception& error) {
      FAIL_CHECK(error.what());
    }
  }).join();
}

inline void check_works(cuda::device::Stream& stream) {
  on(stream, [] {
    const DeviceBytes data(300);
    const Bytes sent = numbered(300, 1);
    put(data.data(), sent.data(), 300);
    CHECK(data.bytes() == sent);
  });
}

/// Usually more work than a device has done by the next poll: 64 MiB from the host.
class LongWork {
 public:
  void enqueue() const {
    for (int i = 0; i < 64; ++i)
      cuda::device::enqueue_to_device(target_.data(), source_.data(), num_bytes);
  }

 private:
  static constexpr std::int64_t num_bytes = 1 << 20;
  DeviceBytes target_{num_bytes};
  PinnedBytes source_{num_bytes};
};

inline void check_calls(const cuda::DeviceCalls& expected, const std::function<void()>& body) {
  const cuda::DeviceCalls before = cuda::device::device_calls();
  body();
  const cuda::DeviceCalls after = cuda::device::device_calls();
  CHECK(after.launches - before.launches == expected.launches);
  CHECK(after.graph_launches - before.graph_launches == expected.graph_launches);
  CHECK(after.copies - before.copies == expected.copies);
  CHECK(after.allocations - before.allocations == expected.allocations);
  CHECK(after.waits - before.waits == expected.waits);
}

inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace zeroproof::device_test
