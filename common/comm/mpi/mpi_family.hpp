#pragma once
// What the communicator of the world and its groups share in one process (internal to the MPI communicator).

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

/// One failure ends them all. It travels in the mailbox of the world, to which every waiting rank listens,
/// whatever group it waits in; so does the news that a rank is stuck.
class MpiFamily {
 public:
  MpiFamily();

  const std::shared_ptr<MpiChannel>& world() const { return world_; }
  FailureRecord& failure() { return failure_; }

  void post(MpiMessage::Kind kind);
  /// Tells all ranks of the world and gives MPI a moment to take the message over. Does not throw.
  void tell(const Error& error, int channel, std::int64_t calls_before);

  /// What has become of the world for a rank in a call of a channel: its own failure, or one that it has heard of
  /// and that concerns this call. One in a later call of the same channel does not touch it.
  std::optional<Error> failure_for(int channel, std::int64_t sequence) const;

  /// What messages say of ranks given by their numbers in the world, of the world itself or of a group.
  static RankNames names(const std::vector<int>& in_world, bool is_group);

 private:
  std::shared_ptr<MpiChannel> world_;
  FailureRecord failure_;
};

}  // namespace zeroproof
