#pragma once
// The NCCL calls of a rank. Needs neither nccl.h nor CUDA.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/collective_call.hpp"
#include "common/comm/recording.hpp"
#include "cuda/device/runtime/stream.hpp"

namespace zeroproof::cuda {

/// The last calls of a rank, the progress of its device, and the traffic of all calls.
///
/// The calls of one communicator are sequential on the device too, in whichever streams they are
/// made: all ranks then have the same order of calls, and two calls in two streams cannot wait for
/// each other.
class NcclCalls {
 public:
  static constexpr std::int64_t kept = 64;

  NcclCalls(int world_size, int rank) : world_size_(world_size), rank_(rank) {}

  /// Counts and numbers the call and makes the current stream wait for the previous one. While the
  /// current stream is captured, only records the call.
  const CollectiveCall& begin(CollectiveCall call);
  /// The current stream has all work of the call.
  void enqueued();

  /// Calls recorded during captures since the last time.
  std::vector<CollectiveCall> take_captured() { return std::exchange(captured_, {}); }
  /// Called before and after the launch, in the current stream, of a graph with these calls.
  void begin_replay(const std::vector<CollectiveCall>& calls);
  void end_replay();

  std::int64_t made() const { return made_; }
  /// Number of calls, from the first, that the device has ended; calls that are no longer kept
  /// count as ended. Errors: those of the device.
  std::int64_t ended();
  std::int64_t known_ended() const { return ended_; }              ///< last result of ended()
  const CollectiveCall& last() const { return slot(made_).call; }  ///< if a call was made
  /// Traffic, counted like RecordingCommunicator (common/comm/recording.hpp).
  const Traffic& traffic() const { return traffic_; }

  /// "all_gather #1, broadcast #2 from root 0; 1 of 2 had ended", by the last result of ended()
  std::string text() const;

  /// made(), ended() and all kept calls as numbers, the same count on all ranks. Does not throw
  /// device errors.
  std::vector<std::int64_t> numbers();
  struct History {
    std::int64_t made = 0, ended = 0;
    std::vector<CollectiveCall> calls;  ///< kept ones, in order
    const CollectiveCall* find(std::int64_t sequence) const;
  };
  static History history_of(Span<const std::int64_t> numbers, int world_size);

 private:
  struct Slot {
    CollectiveCall call;
    device::Event ended;
    bool enqueued = false;
    std::int64_t marked_by = 0;  ///< the call whose `ended` is used: the last one of its graph
  };
  Slot& slot(std::int64_t sequence) { return slots_[sequence % kept]; }
  const Slot& slot(std::int64_t sequence) const { return slots_[sequence % kept]; }
  std::int64_t oldest() const { return made_ < kept ? 1 : made_ - kept + 1; }
  /// The next call. The caller has made the stream wait.
  Slot& add(CollectiveCall call);

  int world_size_, rank_;
  std::array<Slot, kept> slots_;
  std::int64_t made_ = 0, ended_ = 0;
  Traffic traffic_;
  std::vector<CollectiveCall> captured_;
  std::int64_t replay_begin_ = 0;  ///< made() before the graph that is being launched
};

}  // namespace zeroproof::cuda
