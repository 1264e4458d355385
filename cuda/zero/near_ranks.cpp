#include "cuda/zero/near_ranks.hpp"

#include <cstdint>
#include <map>
#include <string>

#include "common/base/span.hpp"

namespace zeroproof::cuda {
namespace {

/// Collective over the group.
bool shares_memory(Communicator& group) { return group.shared_window(0) != nullptr; }

}  // namespace

NearRanks::NearRanks(Communicator& comm) : rank_(comm.rank()) {
  const int world = comm.world_size();
  std::vector<std::uint64_t> machine(static_cast<std::size_t>(world),
                                     0);  // by rank: any number, equal on one machine
  if (world > 1 && shares_memory(comm)) {
    group_ = &comm;
  } else if (world > 1) {
    std::map<std::string, int> first_on;
    for (int rank = 0; rank < world; ++rank) {
      const std::string host = comm.host_of(rank);
      const int first = host.empty() ? rank : first_on.try_emplace(host, rank).first->second;
      machine[static_cast<std::size_t>(rank)] = static_cast<std::uint64_t>(first);
    }
    const auto own = static_cast<std::size_t>(rank_);
    split_ = comm.split(static_cast<int>(machine[own]));
    if (split_->world_size() > 1 && shares_memory(*split_)) group_ = split_.get();
    // A host name is a guess: the group knows. Ranks without company are on a machine of their own.
    std::vector<std::uint64_t> told(machine.size(), 0);
    told[own] = group_ != nullptr ? machine[own] : static_cast<std::uint64_t>(rank_);
    comm.all_reduce(told, IntegerReduce::sum);
    machine = told;
  }
  std::map<std::uint64_t, std::size_t> known;
  for (int rank = 0; rank < world; ++rank) {
    const auto at = known.try_emplace(machine[static_cast<std::size_t>(rank)], machines_.size());
    if (at.second) machines_.emplace_back();
    std::vector<int>& ranks = machines_[at.first->second];
    places_.push_back({at.first->second, static_cast<int>(ranks.size())});
    ranks.push_back(rank);
  }
}

}  // namespace zeroproof::cuda
