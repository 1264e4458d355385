#pragma once
// What a rank has asked NCCL for. Needs neither nccl.h nor CUDA.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/comm/collective_call.hpp"
#include "common/comm/recording.hpp"
#include "cuda/device/runtime/stream.hpp"

namespace zeroproof::cuda {

/// The last calls of a rank, how far its device has come with them, and what all of them have moved.
///
/// The calls of one communicator follow each other on the device too, whichever streams they are made in: all ranks
/// have the same order of calls then, and no two of them can wait for each other in two streams.
class NcclCalls {
 public:
  static constexpr std::int64_t kept = 64;

  NcclCalls(int world_size, int rank) : world_size_(world_size), rank_(rank) {}

  /// Counts the call, numbers it and makes the current stream wait for the one before. While the current stream is
  /// captured, the call is only recorded down.
  const CollectiveCall& begin(CollectiveCall call);
  /// The current stream has been given all of it.
  void enqueued();

  /// What was recorded down since the last time.
  std::vector<CollectiveCall> take_captured() { return std::exchange(captured_, {}); }
  /// A graph with these calls is launched in the current stream between the two.
  void begin_replay(const std::vector<CollectiveCall>& calls);
  void end_replay();

  std::int64_t made() const { return made_; }
  /// How many of them, from the first, the device has ended; those that are not kept are taken to have ended.
  /// Errors: those of the device.
  std::int64_t ended();
  std::int64_t known_ended() const { return ended_; }              ///< what ended() last said
  const CollectiveCall& last() const { return slot(made_).call; }  ///< if one was made
  /// Traffic as RecordingCommunicator (common/comm/recording.hpp) counts it.
  const Traffic& traffic() const { return traffic_; }

  /// "all_gather #1, broadcast #2 from root 0; 1 of 2 had ended", as ended() last said
  std::string text() const;

  /// made(), ended() and all kept calls as numbers, equally many on all ranks. Throws nothing of the device's.
  std::vector<std::int64_t> numbers();
  struct Told {
    std::int64_t made = 0, ended = 0;
    std::vector<CollectiveCall> calls;  ///< kept ones, in order
    const CollectiveCall* find(std::int64_t sequence) const;
  };
  static Told told(Span<const std::int64_t> numbers, int world_size);

 private:
  struct Slot {
    CollectiveCall call;
    device::Event ended;
    bool enqueued = false;
    std::int64_t marked_by = 0;  ///< the call whose `ended` counts: the last one of its graph
  };
  Slot& slot(std::int64_t sequence) { return slots_[static_cast<std::size_t>(sequence % kept)]; }
  const Slot& slot(std::int64_t sequence) const {
    return slots_[static_cast<std::size_t>(sequence % kept)];
  }
  std::int64_t oldest() const { return made_ < kept ? 1 : made_ - kept + 1; }
  /// The next call. Whoever gets this has made the stream wait.
  Slot& add(CollectiveCall call);

  int world_size_, rank_;
  std::array<Slot, kept> slots_;
  std::int64_t made_ = 0, ended_ = 0;
  Traffic traffic_;
  std::vector<CollectiveCall> captured_;
  std::int64_t replay_begin_ = 0;  ///< made() before the graph that is being launched
};

}  // namespace zeroproof::cuda
