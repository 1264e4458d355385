#pragma once
// Device implementations for callers with host buffers: the only place that copies the spans of a
// call to device memory.

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

/// Device copies of the spans of one call. A copy keeps the offset of its span within 16 bytes, so
/// that kernels run with every alignment; spans with the same start on the host have the same start
/// on the device. Outputs are copied too: their poison shows elements that a kernel missed.
class DeviceSpans {
 public:
  DeviceSpans() = default;
  DeviceSpans(const DeviceSpans&) = delete;
  DeviceSpans& operator=(const DeviceSpans&) = delete;

  /// The span in device memory; an empty span is returned unchanged.
  template <class T>
  Span<T> of(Span<T> host) {
    if (host.empty()) return host;
    auto* const data = const_cast<std::remove_const_t<T>*>(host.data());
    return {reinterpret_cast<T*>(
                place(data, static_cast<std::int64_t>(host.size_bytes()), !std::is_const_v<T>)),
            host.size()};
  }
  BinnedSum of(const BinnedSum& host) { return {of(host.hi), of(host.lo), of(host.top)}; }
  /// Descriptions of a call stay on the host, which reads them.
  Span<const GradSegment> of(Span<const GradSegment> segments) { return segments; }
  /// Other arguments stay on the host.
  template <class T>
  T& of(T& other) {
    return other;
  }

  /// Copies back all spans that kernels may write, and waits once for all copies.
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
