#pragma once

#include <memory>

#include "cuda/device/runtime/memory.hpp"

namespace zeroproof::cuda::device {

/// A value in device memory, for a call that waits for what its kernels make of it.
template <class T>
class DeviceValue {
 public:
  explicit DeviceValue(const T& start) { copy_to_device(data_.get(), &start, sizeof(T)); }

  T* get() const { return data_.get(); }

  /// Waits for the current stream. Errors: what went wrong in it.
  T fetch() const {
    T value;
    copy_to_host(&value, data_.get(), sizeof(T));
    return value;
  }

 private:
  struct Release {
    void operator()(T* data) const { device_release(data); }
  };
  std::unique_ptr<T, Release> data_{static_cast<T*>(device_allocate(sizeof(T)))};
};

}  // namespace zeroproof::cuda::device
