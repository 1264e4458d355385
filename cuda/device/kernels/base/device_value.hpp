#pragma once

#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/stream.hpp"

namespace zeroproof::cuda::device {

/// A value in device memory that kernels compute and the call returns.
template <class T>
class DeviceValue {
 public:
  explicit DeviceValue(const T& start) { stage_to_device(get(), &start, sizeof(T)); }

  T* get() const { return memory_.data(); }

  /// Waits for the current stream. Errors: those of its work.
  T fetch() const {
    T value;
    stage_to_host(&value, get(), sizeof(T));
    wait_for_stream();
    return value;
  }

 private:
  DeviceArray<T> memory_{1};
};

}  // namespace zeroproof::cuda::device
