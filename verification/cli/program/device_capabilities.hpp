#pragma once
// Capabilities of the devices and of NCCL of this machine.

#include <string>
#include <vector>

#include "cuda/device/runtime/device.hpp"
#include "verification/cli/program/capabilities.hpp"

namespace zeroproof::verification {

/// A line for every device, or the missing requirements, and one for NCCL, whose library is loaded:
/// for zeroproof doctor.
std::vector<Capability> device_capabilities();

/// The line of one device: name, memory, compute capability, and why it is refused if it is.
Capability device_line(std::size_t number, const cuda::device::ListedDevice& device);

/// Why so many ranks on this machine cannot have transport of NCCL between their devices; "" if they can.
std::string nccl_obstacle(int ranks);

/// True if ranks may share a device: NCCL_MULTI_RANK_GPU_ENABLE permits it, from NCCL 2.30 on.
bool nccl_shares_devices(const std::string& version, const char* variable);

}  // namespace zeroproof::verification
