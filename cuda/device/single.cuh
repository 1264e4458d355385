#pragma once
// A handful of numbers, computed by one thread of the device.

#include "cuda/device/host_staging.hpp"
#include "cuda/device/runtime/launch.hpp"

namespace zeroproof::cuda::device {

template <class Result, class Operation>
ZP_KERNEL single_kernel(Operation operation, Result* result) {
  if (threadIdx.x == 0) *result = operation();
}

/// What operation() returns on the device. Result: plain numbers without defaults.
template <class Result, class Operation>
Result on_device(const Operation& operation) {
  Result result{};
  const Span<Result> host(&result, 1);
  HostStaging stage;
  Result* device = stage.output(host);
  launch(single_kernel<Result, Operation>, 1, 32, operation, device);
  stage.download(host);
  return result;
}

}  // namespace zeroproof::cuda::device
