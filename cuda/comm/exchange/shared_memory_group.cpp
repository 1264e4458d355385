#include "cuda/comm/exchange/shared_memory_group.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "common/base/span.hpp"

namespace zeroproof::cuda {
namespace {

/// Collective over the group.
bool shares_memory(Communicator& group) { return group.shared_window(0) != nullptr; }

/// By rank: the first rank whose host has the same name; a rank with an unknown host is alone.
std::vector<std::uint64_t> firsts_on_hosts(const Communicator& comm) {
  std::vector<std::uint64_t> firsts;
  std::map<std::string, int> first_on;
  for (int rank = 0; rank < comm.world_size(); ++rank) {
    const std::string host = comm.host_of(rank);
    const int first = host.empty() ? rank : first_on.try_emplace(host, rank).first->second;
    firsts.push_back(static_cast<std::uint64_t>(first));
  }
  return firsts;
}

}  // namespace

SharedMemoryGroup::SharedMemoryGroup(Communicator& comm) : rank_(comm.rank()) {
  const int world = comm.world_size();
  std::vector<std::uint64_t> machine(world,
                                     0);  // any number that is equal on one machine
  if (world > 1 && shares_memory(comm)) {
    group_ = &comm;
  } else {
    machine = firsts_on_hosts(comm);
    const std::set<std::uint64_t> hosts(machine.begin(), machine.end());
    if (hosts.size() < machine.size()) find_group(comm, machine);
  }
  std::map<std::uint64_t, std::size_t> known;
  for (int rank = 0; rank < world; ++rank) {
    const auto at = known.try_emplace(machine[rank], machines_.size());
    if (at.second) machines_.emplace_back();
    std::vector<int>& ranks = machines_[at.first->second];
    places_.push_back({at.first->second, static_cast<int>(ranks.size())});
    ranks.push_back(rank);
  }
}

/// Equal host names are only a hint, their group has the actual result: ranks without company count
/// as a machine of their own.
void SharedMemoryGroup::find_group(Communicator& comm, std::vector<std::uint64_t>& machine) {
  const auto own = static_cast<std::size_t>(rank_);
  split_ = comm.split(static_cast<int>(machine[own]));
  if (split_->world_size() > 1 && shares_memory(*split_)) group_ = split_.get();
  std::vector<std::uint64_t> agreed(machine.size(), 0);
  agreed[own] = group_ != nullptr ? machine[own] : static_cast<std::uint64_t>(rank_);
  comm.all_reduce(agreed, IntegerReduce::sum);
  machine = agreed;
}

}  // namespace zeroproof::cuda
