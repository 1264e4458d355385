#include "verification/cases/obstacle.hpp"

#include "common/step/param_scaling.hpp"
#include "cuda/device/runtime/device.hpp"
#include "verification/cli/program/capabilities.hpp"
#include "verification/cli/program/device_capabilities.hpp"

namespace zeroproof::verification {

bool makes_scales(Implementation implementation) { return !implementation.foreign; }

std::string obstacle(const CaseSpec& spec, bool other_hosts) {
  if (has_scales(spec.dtype) && !makes_scales(spec.implementation))
    return "the candidate " + std::string(name(spec.implementation)) +
           " has no parameters in 8 bits";
  if (spec.implementation.space == Space::device && !device_answers())
    return cuda::device::device_info().detail;
  if (spec.world.has_processes() && !mpi_answers()) return mpi_obstacle();
  if (spec.world.kind == WorldSpec::Kind::nccl)
    return nccl_obstacle(other_hosts ? 1 : spec.world.size);
  if (spec.place.transport != Transport::nccl) return "";
  if (!cuda::device::device_info().simulated) return nccl_obstacle(spec.world.size);
  return spec.world.has_processes() ? "NCCL connects simulated devices of one process alone" : "";
}

}  // namespace zeroproof::verification
