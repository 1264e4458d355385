#pragma once
// Device copies of the host spans of one call.

#include <cstdint>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof::cuda::device {

/// Device memory with one owner.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::int64_t num_bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept : data_(other.data_) { other.data_ = nullptr; }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;

  unsigned char* data() const { return data_; }

 private:
  unsigned char* data_ = nullptr;
};

/// Holds the device copies of one call until it returns. A copy keeps the host span's place within 16 bytes,
/// so that a kernel meets every alignment its caller had; spans that are one buffer on the host are one on
/// the device.
class HostStaging {
 public:
  /// Device copy of an input, or of something that is updated in place. host: [numel], numel > 0.
  template <class T>
  T* upload(Span<T> host) {
    return reinterpret_cast<T*>(upload_bytes(host.data(), bytes(host)));
  }

  /// Device memory for an output: the copy of that very buffer if it was uploaded, else new memory filled
  /// with 0xFF bytes. Left as it is, it could hold the right answer from an earlier call and hide elements a
  /// kernel forgot.
  template <class T>
  T* output(Span<T> host) {
    return reinterpret_cast<T*>(output_bytes(host.data(), bytes(host)));
  }

  /// Waits for the kernels and copies what upload() or output() made for this span back to it.
  template <class T>
  void download(Span<T> host) const {
    download_bytes(host.data(), bytes(host));
  }

 private:
  struct Copy {
    const void* host;
    unsigned char* device;
    DeviceBuffer buffer;
  };

  template <class T>
  static std::int64_t bytes(Span<T> host) {
    return static_cast<std::int64_t>(host.size_bytes());
  }
  unsigned char* find(const void* host) const;
  unsigned char* allocate(const void* host, std::int64_t num_bytes);
  unsigned char* upload_bytes(const void* host, std::int64_t num_bytes);
  unsigned char* output_bytes(const void* host, std::int64_t num_bytes);
  void download_bytes(void* host, std::int64_t num_bytes) const;

  std::vector<Copy> copies_;
};

}  // namespace zeroproof::cuda::device
