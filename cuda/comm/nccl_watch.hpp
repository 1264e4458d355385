#pragma once
// Waits for device work in which ranks wait for each other. A wait that only the device can end
// would hang forever after a rank has ended. Needs neither nccl.h nor CUDA.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cuda/comm/counted_communicator.hpp"
#include "cuda/comm/nccl_cause.hpp"
#include "cuda/device/runtime/stream.hpp"

namespace zeroproof::cuda {

/// A communicator whose calls still run after they have returned, and can fail then.
class WatchedCommunicator : public CountedCommunicator {
 public:
  /// Errors: those since the last poll. Does not wait.
  virtual void poll() = 0;
  /// Whether calls were still running at the last poll.
  virtual bool under_way() const = 0;
  /// Ends its work on this rank's device.
  virtual void stop() = 0;
  /// After stop(), collective over the ranks of the communicator: the reason why its calls did not
  /// end.
  virtual NcclCause cause(std::chrono::milliseconds limit) = 0;
  /// Breaks it for good and notifies the other ranks. Returns the error with the last calls of this
  /// rank.
  virtual Error break_with(const Error& error) = 0;

  /// Calls recorded during a capture of the current stream, since the last time. They are executed
  /// at each launch of the graph: in the current stream, between the two functions below.
  virtual std::vector<CollectiveCall> take_captured() = 0;
  virtual void begin_replay(const std::vector<CollectiveCall>& calls) = 0;
  virtual void end_replay() = 0;
};

/// Time limit of calls, and of waits for them. A rank may need it twice before it requests the cause
/// from the others (a call that NCCL accepts late, and the wait for it), and they have to wait for
/// that: control's limit is at least twice as long.
inline constexpr std::chrono::milliseconds default_nccl_limit = default_comm_timeout / 2;

/// To be called between polls; it sleeps briefly, throws if a communicator fails, and stops all of
/// them when the limit has passed since its construction: one for each wait,
///
///   device::wait_for_event(event, NcclWatch({groups.comm, groups.replicas, groups.tp}));
///
/// Null communicators and communicators that need no watch are left out. Ranks list theirs in the
/// same order, because they exchange the calls of those with running calls in that order. An error
/// ends within the limit plus the time that the control communicators take for ranks that do not
/// respond.
class NcclWatch {
 public:
  explicit NcclWatch(const std::vector<Communicator*>& comms,
                     std::chrono::milliseconds limit = default_nccl_limit);

  void operator()();

 private:
  [[noreturn]] void give_up();

  std::vector<WatchedCommunicator*> comms_;
  std::chrono::milliseconds limit_;
  std::chrono::steady_clock::time_point begin_;
};

/// Waits for the event, and for all work that the current stream has so far.
void wait_watched(const device::Event& event, const std::vector<Communicator*>& comms,
                  std::chrono::milliseconds limit = default_nccl_limit);
void wait_watched(const std::vector<Communicator*>& comms,
                  std::chrono::milliseconds limit = default_nccl_limit);

/// Waits for all work of the current stream before memory that it uses is freed, with only a time
/// limit: a watch of broken communicators throws immediately, and their remaining work ends slightly
/// later. False if it did not end within the limit, or the device has failed.
bool wait_to_release(std::chrono::milliseconds limit = default_nccl_limit) noexcept;

}  // namespace zeroproof::cuda
