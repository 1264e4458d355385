#pragma once
// State shared by the meetings of one world of threads (internal to the thread communicator).

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/flight_recorder.hpp"

namespace zeroproof {

class ThreadRendezvous;

/// The world itself and every group of it are meetings of one domain: one lock, and one failure that ends them
/// all. A rank here is one of the world.
struct ThreadDomain {
  ThreadDomain(int world_size, std::shared_ptr<FlightRecorders> rank_recorders)
      : recorders(std::move(rank_recorders)),
        left(static_cast<std::size_t>(world_size)),
        waiting(static_cast<std::size_t>(world_size)) {}

  /// With the lock held: stores the first failure and wakes the waiting ranks of all meetings.
  void break_with(const Error& error);

  const std::shared_ptr<FlightRecorders> recorders;  // null: nothing is recorded
  std::mutex mutex;                                  // guards this object and all meetings
  std::optional<Error> failure;
  int culprit = -1;        // rank of the failure
  std::vector<bool> left;  // [world_size] the rank's work has ended
  int num_left = 0;
  std::vector<int> waiting;  // [world_size] meetings in which the rank waits
  std::set<ThreadRendezvous*> meetings;
};

}  // namespace zeroproof
