#pragma once
// Ranks as threads of this process: the same code as with processes, on any machine, under any debugger.

#include <functional>
#include <memory>

#include "common/comm/communicator.hpp"

namespace zeroproof {

struct FlightRecorders;
class ThreadRendezvous;

/// A group of world_size ranks in this process. It can be used for many run_ranks(), but not after
/// an error: a failed world stays failed; make a new one.
class ThreadWorld {
 public:
  /// timeout: how long a rank waits in a collective for the others before it fails.
  /// recorders: of these ranks, which record every collective; null for none.
  explicit ThreadWorld(int world_size, std::chrono::milliseconds timeout = default_comm_timeout,
                       std::shared_ptr<FlightRecorders> recorders = nullptr);

  int world_size() const;

  /// The communicator of one rank, for use by one thread at a time. Its position in the order of calls
  /// belongs to the world, so it does not matter whether a rank keeps one communicator or gets a new one.
  /// It may outlive the world.
  std::unique_ptr<Communicator> communicator(int rank);

 private:
  friend void run_ranks(ThreadWorld& world, const std::function<void(Communicator&)>& work);
  std::shared_ptr<ThreadRendezvous> meeting_;
};

/// Runs work once per rank, each in a thread of its own, and returns when all have ended.
///
/// If work throws on a rank, the world is aborted with the exception's text, so the others end as well, and the first
/// exception of a rank with the original problem (ErrorOrigin) is rethrown here. A rank whose work returns while
/// others still call collectives makes those calls fail at once.
void run_ranks(ThreadWorld& world, const std::function<void(Communicator&)>& work);

}  // namespace zeroproof
