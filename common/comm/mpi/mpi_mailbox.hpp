#pragma once
// Messages between all ranks beside the data (internal to the MPI communicator).

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/mpi/mpi_message.hpp"
#include "common/comm/mpi/mpi_transport.hpp"

namespace zeroproof {

/// Always has a receive posted for every other rank, so a failure is received in any wait. Threads
/// may call it at the same time.
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

  /// Receives all arrived messages. Returns the number of messages so far that are not `waiting`.
  std::int64_t progress();

  /// Stops receiving and sending. Call it before the transport is abandoned.
  void close();

  /// Messages received from a rank. A call may already be that of the next collective.
  bool has_call(int rank) const;
  CollectiveCall take_call(int rank);
  bool left(int rank) const;
  bool waiting(int rank) const;

  /// The failure that another rank reported; of several in one channel, that in the earliest call.
  struct Failure {
    Error error;
    std::int64_t channel = 0;       ///< of the communicator that failed
    std::int64_t calls_before = 0;  ///< number of calls that the failed rank had completed
  };
  std::optional<Failure> failure() const;

 private:
  struct Peer {
    std::vector<std::byte> inbox;
    int inbox_handle = -1;
    std::deque<CollectiveCall> calls;
    bool left = false;
    int waiting = 0;  // collectives in which it waits
  };

  struct Outgoing {
    std::vector<std::byte> data;
    std::vector<int> handles;  // [world_size], -1: done
  };

  const Peer& peer(int rank) const { return peers_[rank]; }
  void listen(int rank);
  std::optional<MpiMessage> receive(int rank);
  void send_on();
  void take_in(Peer& from, const MpiMessage& message);

  mutable std::mutex mutex_;
  MpiTransport& transport_;
  std::vector<Peer> peers_;  // [world_size], this rank's own is unused
  std::vector<Outgoing> outbox_;
  std::optional<Failure> failure_;
  std::int64_t news_ = 0;
  bool closed_ = false;
};

}  // namespace zeroproof
