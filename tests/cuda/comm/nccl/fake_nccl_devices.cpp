// Ranks that share a device.

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/cuda/comm/nccl/fake_nccl_state.hpp"

namespace zp_fake_nccl {

namespace {

bool sharing_is_allowed() {
  const char* const variable = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return state().plan.version >= 23000 && variable != nullptr && std::string(variable) == "1";
}

}  // namespace

/// NCCL detects this when ranks exchange their properties, so each of those that share a device
/// fails by itself, later than it began, and does not notify the others.
ncclResult_t judge_devices(ncclComm& comm) {
  if (sharing_is_allowed()) return ncclSuccess;
  std::map<int, std::vector<int>> ranks;  // by device
  for (const auto& one : state().comms) {
    if (one->clique == comm.clique) ranks[one->device].push_back(one->rank);
  }
  const auto refused = [](const std::vector<int>& sharing) {
    return static_cast<int>(sharing.size()) > state().plan.ranks_per_device;
  };
  if (const std::vector<int>& mine = ranks[comm.device]; refused(mine)) {
    const int other = mine[mine[0] == comm.rank ? 1 : 0];
    comm.last_error = "Duplicate GPU detected: ranks " + std::to_string(comm.rank) + " and " +
                      std::to_string(other) + " on device " + std::to_string(comm.device);
    return ncclInvalidUsage;
  }
  for (const auto& [device, sharing] : ranks) {
    if (refused(sharing)) return ncclInProgress;
  }
  return ncclSuccess;
}

}  // namespace zp_fake_nccl
