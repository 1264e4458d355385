#pragma once
// Device implementations for callers whose buffers are the host's. An implementation takes spans of device memory; this is the one place
// that puts them there.

#include <cstdint>
#include <cstring>
#include <list>
#include <type_traits>
#include <utility>

#include "common/base/span.hpp"
#include "common/contracts/binned_sum.hpp"
#include "common/contracts/grad_stats.hpp"
#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/stream.hpp"

namespace zeroproof::verification {

/// Device copies of the spans of one call. A copy keeps its span's place within 16 bytes, so that a kernel meets every
/// alignment its caller had; spans that begin at the same place on the host do so on the device. What a caller left in
/// an output goes there too: poison shows elements that a kernel forgot.
class DeviceSpans {
 public:
  DeviceSpans() = default;
  DeviceSpans(const DeviceSpans&) = delete;
  DeviceSpans& operator=(const DeviceSpans&) = delete;

  /// The span in device memory; an empty one stays where it is.
  template <class T>
  Span<T> of(Span<T> host) {
    if (host.empty()) return host;
    auto* const data = const_cast<std::remove_const_t<T>*>(host.data());
    return {reinterpret_cast<T*>(
                place(data, static_cast<std::int64_t>(host.size_bytes()), !std::is_const_v<T>)),
            host.size()};
  }
  BinnedSum of(const BinnedSum& host) { return {of(host.hi), of(host.lo), of(host.top)}; }
  /// What describes a call is the host's, which looks at it.
  Span<const GradSegment> of(Span<const GradSegment> segments) { return segments; }
  /// Everything else is the host's.
  template <class T>
  T& of(T& other) {
    return other;
  }

  /// Copies back whatever the kernels may write, and waits once for all of it.
  void fetch() const {
    for (const Copy& copy : copies_) {
      if (copy.written) cuda::device::stage_to_host(copy.host, copy.device(), copy.num_bytes);
    }
    cuda::device::wait_for_stream();
  }

 private:
  static constexpr std::uintptr_t alignment = 16;  // device memory is aligned to at least 256 bytes

  struct Copy {
    Copy(void* host_data, std::int64_t bytes)
        : host(host_data),
          num_bytes(bytes),
          offset(
              static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(host_data) % alignment)),
          memory(bytes + offset) {}
    unsigned char* device() const { return memory.data() + offset; }

    void* host;
    std::int64_t num_bytes;
    std::int64_t offset;
    cuda::DeviceArray<unsigned char> memory;
    bool written = false;
  };

  unsigned char* place(void* host, std::int64_t num_bytes, bool written) {
    for (Copy& copy : copies_) {
      if (copy.host != host || copy.num_bytes != num_bytes) continue;
      copy.written = copy.written || written;
      return copy.device();
    }
    Copy& copy = copies_.emplace_back(host, num_bytes);
    copy.written = written;
    cuda::device::stage_to_device(copy.device(), host, num_bytes);
    return copy.device();
  }

  std::list<Copy> copies_;
};

template <auto implementation>
struct OnDevice;

template <class Result, class... Arguments, Result (*implementation)(Arguments...)>
struct OnDevice<implementation> {
  static Result call(Arguments... arguments) {
    DeviceSpans device;
    if constexpr (std::is_void_v<Result>) {
      implementation(device.of(arguments)...);
      device.fetch();
    } else {
      const Result result = implementation(device.of(arguments)...);
      device.fetch();
      return result;
    }
  }
};

/// A device implementation as a function of the same type over spans of host memory. Waits until they are filled.
template <auto implementation>
inline constexpr auto* on_device = OnDevice<implementation>::call;

}  // namespace zeroproof::verification
