#pragma once
// Waiting for device work in which ranks wait for each other. A wait that only the device can end would hang for ever
// with a rank that is gone. Needs neither nccl.h nor CUDA.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cuda/comm/counted_communicator.hpp"
#include "cuda/comm/nccl_cause.hpp"
#include "cuda/device/runtime/stream.hpp"

namespace zeroproof::cuda {

/// A communicator whose calls go on after they have returned, and can fail then.
class WatchedCommunicator : public CountedCommunicator {
 public:
  /// Errors: what has gone wrong since the last look. Does not wait.
  virtual void look() = 0;
  /// Whether calls had not ended at the last look.
  virtual bool under_way() const = 0;
  /// Ends on this rank's device what it was given.
  virtual void stop() = 0;
  /// After stop(), collective over the ranks of the communicator: why its calls did not end.
  virtual NcclCause cause(std::chrono::milliseconds limit) = 0;
  /// It stays broken, and the other ranks are told. Returns the error with the last calls of this rank.
  virtual Error break_with(const Error& error) = 0;

  /// Calls that were made while the current stream was captured, since the last time this was asked. They have not been
  /// made yet, but are whenever the graph is launched: in the current stream, between the two functions below.
  virtual std::vector<CollectiveCall> take_captured() = 0;
  virtual void begin_replay(const std::vector<CollectiveCall>& calls) = 0;
  virtual void end_replay() = 0;
};

/// How long calls may take, and waits for them. A rank can take it twice until it asks the others for the cause (a call
/// that NCCL takes late, and the wait for it), and they have to wait for that: control's limit is twice as long or
/// more.
inline constexpr std::chrono::milliseconds default_nccl_limit = default_comm_timeout / 2;

/// To be called between looks at what is waited for; it sleeps a little, throws if a communicator cannot go on, and
/// gives all of them up when the limit has passed since it was made: one for each wait,
///
///   device::wait_for_event(event, NcclWatch({comm_groups.comm, comm_groups.replicas, comm_groups.tp}));
///
/// Communicators that are null or have nothing to be watched are left out. Ranks list theirs in the same order: they
/// ask each other about those that have calls under way, in that order. An error ends within the limit and the time
/// that the control communicators take for ranks that do not answer.
class NcclWatch {
 public:
  explicit NcclWatch(const std::vector<Communicator*>& comms,
                     std::chrono::milliseconds limit = default_nccl_limit);

  void operator()();

 private:
  [[noreturn]] void give_up();

  std::vector<WatchedCommunicator*> comm_groups_;
  std::chrono::milliseconds limit_;
  std::chrono::steady_clock::time_point begin_;
};

/// Waits for the event, and for all that the current stream was given so far.
void wait_watched(const device::Event& event, const std::vector<Communicator*>& comms,
                  std::chrono::milliseconds limit = default_nccl_limit);
void wait_watched(const std::vector<Communicator*>& comms,
                  std::chrono::milliseconds limit = default_nccl_limit);

/// Waits for all that the current stream was given before memory goes that it uses, by the clock alone: a watch of
/// comm_groups that are broken throws at once, and what is left of their work ends a little later. False if it did not within
/// the limit, or the device has failed.
bool wait_to_release(std::chrono::milliseconds limit = default_nccl_limit) noexcept;

}  // namespace zeroproof::cuda
