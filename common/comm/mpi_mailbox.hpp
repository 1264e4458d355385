#pragma once
// Messages between all ranks beside the data (internal to the MPI communicator).

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/mpi_message.hpp"
#include "common/comm/mpi_transport.hpp"

namespace zeroproof {

/// Always listens to every other rank, so a failure is heard in whatever a rank is waiting for.
class MpiMailbox {
 public:
  explicit MpiMailbox(MpiTransport& transport);
  ~MpiMailbox();
  MpiMailbox(const MpiMailbox&) = delete;
  MpiMailbox& operator=(const MpiMailbox&) = delete;

  /// Sends a message to all other ranks, without waiting.
  void post(const MpiMessage& message);
  /// True if MPI has taken over all that was posted to this rank.
  bool posted(int rank) const;

  /// Receives what has arrived; returns true if there was news (that another rank waits is none).
  bool progress();

  /// What has arrived from a rank. A call may already be that of the next collective.
  bool has_call(int rank) const { return !peer(rank).calls.empty(); }
  CollectiveCall take_call(int rank);
  bool left(int rank) const { return peer(rank).left; }
  bool waiting(int rank) const { return peer(rank).waiting; }
  /// The failure that another rank reported; of several, that in the earliest call.
  const std::optional<Error>& failure() const { return failure_; }
  /// How many calls the rank that failed had completed by then.
  std::int64_t calls_before_failure() const { return calls_before_failure_; }

 private:
  struct Peer {
    std::vector<std::byte> inbox;
    int inbox_handle = -1;
    std::deque<CollectiveCall> calls;
    bool left = false;
    bool waiting = false;
  };

  struct Outgoing {
    std::vector<std::byte> data;
    std::vector<int> handles;  // [world_size], -1: done
  };

  const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  void listen(int rank);
  std::optional<MpiMessage> receive(int rank);
  void send_on();
  void take_in(Peer& from, const MpiMessage& message);

  MpiTransport& transport_;
  std::vector<Peer> peers_;  // [world_size], this rank's own is unused
  std::vector<Outgoing> outbox_;
  std::optional<Error> failure_;
  std::int64_t calls_before_failure_ = 0;
};

}  // namespace zeroproof
