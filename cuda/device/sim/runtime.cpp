// Properties of the simulated device.

#include "cuda/device/runtime/runtime.hpp"

#include "common/base/error.hpp"
#include "cuda/device/runtime/calls.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/device/sim/current.hpp"
#include "cuda/device/sim/streams.hpp"

namespace zeroproof::cuda {

static thread_local int chosen = 0;

int sim::chosen_device() { return chosen; }

namespace device {

const DeviceInfo& device_info() {
  sim::stream_order();  // an unknown ZP_SIM_ORDER ends the command before its first case
  static const DeviceInfo info{true, true, true, "simulated on the processor"};
  return info;
}

std::vector<ListedDevice> listed_devices() {
  return std::vector<ListedDevice>(num_devices(),
                                   {"simulated on the processor", std::int64_t{16} << 30, 8, 0});
}

/// More than one, so that ranks have to choose; all of them are identical.
int num_devices() { return 2; }

int choose_device(int local_rank) {
  require_local_rank(local_rank);
  return chosen = local_rank % num_devices();
}

/// Few enough that kernels have to stride at the sizes of tests.
int num_multiprocessors() { return 3; }

}  // namespace device
}  // namespace zeroproof::cuda
