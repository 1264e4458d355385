#pragma once
// State that the communicator of the world and its groups share in one process (internal to the MPI
// communicator).

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/collective_call.hpp"
#include "common/comm/failure_record.hpp"
#include "common/comm/mpi/mpi_mailbox.hpp"
#include "common/comm/mpi/mpi_transport.hpp"

namespace zeroproof {

/// Transfers and messages between the ranks of one communicator.
struct MpiChannel {
  explicit MpiChannel(MpiTransport t) : transport(std::move(t)), mailbox(transport) {}
  MpiTransport transport;
  MpiMailbox mailbox;
};

/// One failure ends them all. It is sent to the mailbox of the world, which every waiting rank
/// polls, in any group; so is the message that a rank is stuck.
class MpiFamily {
 public:
  MpiFamily();

  const std::shared_ptr<MpiChannel>& world() const { return world_; }
  FailureRecord& failure() { return failure_; }

  void post(MpiMessage::Kind kind);
  /// Sends the failure to all ranks of the world and waits briefly until MPI has taken the message
  /// over. Does not throw.
  void tell(const Error& error, int channel, std::int64_t calls_before);

  /// State of the world for a rank in a call of a channel: its own failure, or a received one that
  /// concerns this call. A failure in a later call of the same channel does not.
  std::optional<Error> failure_for(int channel, std::int64_t sequence) const;

  /// Names in messages for ranks given by their numbers in the world, of the world itself or of a
  /// group.
  static RankNames names(const std::vector<int>& in_world, bool is_group);

 private:
  std::shared_ptr<MpiChannel> world_;
  FailureRecord failure_;
};

}  // namespace zeroproof
