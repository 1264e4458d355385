#pragma once
// A few numbers computed by one thread of the device.

#include "cuda/device/kernels/base/device_value.hpp"
#include "cuda/device/runtime/launch.hpp"

namespace zeroproof::cuda::device {

template <class Result, class Operation>
ZP_KERNEL single_kernel(Operation operation, Result* result) {
  if (threadIdx.x == 0) *result = operation();
}

/// Returns the result of operation() on the device. Result: plain numbers without defaults.
template <class Result, class Operation>
Result on_device(const Operation& operation) {
  const DeviceValue<Result> result({});
  launch(single_kernel<Result, Operation>, 1, 32, operation, result.get());
  return result.fetch();
}

}  // namespace zeroproof::cuda::device
