#pragma once
// Where ranks that are threads meet (internal to the thread communicator).

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/comm/collective_call.hpp"

namespace zeroproof {

/// A collective has three parts: all ranks arrive, and the last one compares the calls; each rank copies what
/// it receives straight from the senders' memory; nobody returns before all have copied. Waiting ranks sleep.
class ThreadMeeting {
 public:
  ThreadMeeting(int world_size, std::chrono::milliseconds timeout);

  int world_size() const { return static_cast<int>(ranks_.size()); }

  void exchange(int rank, CollectiveCall call, Span<const Span<const std::byte>> send,
                Span<const Span<std::byte>> recv);
  void abort(int rank, const std::string& reason);

  /// The rank's work is over: who waits for it, or ever will, gets an error at once.
  void leave(int rank);
  /// Takes all leave() back, for the next piece of work.
  void return_all();

  /// The rank whose abort broke this world, or -1.
  int culprit();

 private:
  struct Rank {
    Span<const Span<const std::byte>> send;
    std::int64_t num_calls = 0;
    bool present = false;  // waits in arrive()
    bool left = false;
  };

  void arrive(int rank, CollectiveCall call, Span<const Span<const std::byte>> send);
  void open();
  void finish();
  std::vector<int> missing() const;
  void check_left();
  void break_with(Error error);

  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<CollectiveCall> calls_;  // [world_size]
  std::vector<Rank> ranks_;            // [world_size]
  int arrived_ = 0;                    // ranks that wait for this meeting
  int copying_ = 0;                    // ranks that still copy from the last meeting
  std::int64_t meetings_ = 0;          // that took place
  std::optional<Error> failure_;
  int culprit_ = -1;
};

}  // namespace zeroproof
