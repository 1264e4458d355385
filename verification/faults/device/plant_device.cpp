// Plants a fault in the step on a device.

#include "verification/faults/device/wrong_step.hpp"

namespace zeroproof::verification {

std::unique_ptr<DistributedOptimizer> wrong_device(std::string_view fault,
                                                   const FaultContext& context) {
  for (const auto make : {wrong_record, wrong_skip, wrong_numbers, wrong_replay}) {
    if (const MakeDeviceStep step = make(fault, context))
      return on_device(context, {.step = step, .inner = nullptr});
  }
  for (const auto make : {wrong_streams, wrong_lane, wrong_host}) {
    if (std::unique_ptr<DistributedOptimizer> made = make(fault, context)) return made;
  }
  return nullptr;
}

}  // namespace zeroproof::verification
