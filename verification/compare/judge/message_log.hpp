#pragma once
// Copies of all messages between the ranks of a candidate, to find one that arrived with other
// bytes than were sent.

#include <array>
#include <memory>
#include <optional>

#include "common/step/distributed_optimizer.hpp"
#include "verification/cases/broken_message.hpp"

namespace zeroproof::verification {

/// The log of one rank, of blocks of all_to_all, all_gather and broadcast on the communicators of a
/// setup. Not logged: integers that are reduced, the library's own sum of floats, shared windows
/// and device transports, which have no such messages, and groups that the candidate makes.
class MessageLog {
 public:
  MessageLog();
  ~MessageLog();

  /// Replaces the communicators of the setup by ones that log. The originals must outlive this
  /// object.
  void place(OptimizerSetup& setup);

  /// Sends everything since the last call once more, and returns the first message that this rank
  /// received otherwise. Collective.
  /// \param harness  communicators with the ranks of those of the setup
  /// \param rank     this rank in the case
  std::optional<BrokenMessage> check(const OptimizerSetup& harness, int rank);

 private:
  class Group;
  std::array<std::unique_ptr<Group>, 3> groups_;  // as CommGroup
};

}  // namespace zeroproof::verification
