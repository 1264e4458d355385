#pragma once
// The ranks that share memory with this one.

#include <cstddef>
#include <memory>
#include <vector>

#include "common/comm/communicator.hpp"

namespace zeroproof::cuda {

/// The ranks of a communicator, grouped by machine. Ranks of one machine form a group; a group
/// whose ranks turn out to share no memory counts as that many machines.
class SharedMemoryGroup {
 public:
  /// Collective over comm, which must outlive this.
  explicit SharedMemoryGroup(Communicator& comm);

  /// Whether any two ranks share memory, and whether all do: identical on every rank.
  bool any() const { return machines_.size() < places_.size(); }
  bool all() const { return machines_.size() == 1; }

  /// The ranks of this machine; null if this one is alone there.
  Communicator* group() const { return group_; }

  /// Ranks of comm on every machine, in increasing order; machines in the order of their first ranks.
  const std::vector<std::vector<int>>& machines() const { return machines_; }
  std::size_t machine_of(int rank) const { return places_[rank].machine; }
  std::size_t own_machine() const { return machine_of(rank_); }

  /// Index of a rank among the ranks of its machine: its rank in their group.
  int place(int rank) const { return places_[rank].place; }
  bool near(int rank) const { return machine_of(rank) == own_machine(); }

 private:
  struct Place {
    std::size_t machine = 0;
    int place = 0;
  };

  void find_group(Communicator& comm, std::vector<std::uint64_t>& machine);

  int rank_;
  std::vector<std::vector<int>> machines_;
  std::vector<Place> places_;            // [world_size]
  std::unique_ptr<Communicator> split_;  ///< if some ranks are on other machines
  Communicator* group_ = nullptr;
};

}  // namespace zeroproof::cuda
