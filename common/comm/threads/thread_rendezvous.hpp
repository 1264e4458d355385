#pragma once
// Where ranks that are threads meet (internal to the thread communicator).

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/comm/collective_call.hpp"
#include "common/comm/threads/thread_domain.hpp"

namespace zeroproof {

/// A collective has three parts: all ranks arrive, and the last one compares the calls; each rank takes what
/// it receives directly from the senders' memory; no rank returns before all have. Waiting ranks sleep.
class ThreadRendezvous {
 public:
  using TakeBlock = std::function<void(std::size_t from, Span<const std::byte> block)>;

  /// The world.
  ThreadRendezvous(int world_size, std::chrono::milliseconds timeout,
                   std::shared_ptr<FlightRecorders> recorders = nullptr);
  /// A group of some ranks of another meeting; members are ranks of that one.
  ThreadRendezvous(const ThreadRendezvous& parent, const std::vector<int>& members);
  ~ThreadRendezvous();
  ThreadRendezvous(const ThreadRendezvous&) = delete;
  ThreadRendezvous& operator=(const ThreadRendezvous&) = delete;

  int world_size() const { return static_cast<int>(ranks_.size()); }
  std::chrono::milliseconds time_limit() const { return timeout_; }
  bool is_group() const { return !names_.in_world.empty(); }

  /// take gets the blocks of rank 0, 1, ... in turn.
  void exchange(int rank, CollectiveCall call, Span<const Span<const std::byte>> send,
                const TakeBlock& take);
  void abort(int rank, const std::string& reason);

  /// This rank makes no more calls: ranks that wait for it here, now or later, fail at once.
  void leave(int rank);
  /// The same in all meetings of the world of this rank; its work has ended.
  void leave_all(int rank);
  /// Resets all leave_all(), for the next run_ranks().
  void return_all();

  /// The rank of the world whose abort was the failure, or -1.
  int culprit();

 private:
  friend struct ThreadDomain;
  struct Rank {
    Span<const Span<const std::byte>> send;
    std::int64_t num_calls = 0;
    bool present = false;  // waits in arrive()
    bool left = false;
  };

  std::size_t in_world(int rank) const;
  int next_channel() const;
  FlightRecorder* recorder_of(int rank) const;
  void arrive(int rank, CollectiveCall call, Span<const Span<const std::byte>> send,
              ScopedCallRecord& recorded);
  void wait_for_all(std::unique_lock<std::mutex>& lock, int rank, std::int64_t meeting);
  void open();
  void finish();
  std::vector<int> missing() const;
  std::vector<int> holding_up() const;
  void check_left();

  const std::shared_ptr<ThreadDomain> domain_;
  const std::chrono::milliseconds timeout_;
  const int channel_;  // in the recorders
  RankNames names_;
  std::condition_variable changed_;
  std::vector<CollectiveCall> calls_;  // [world_size]
  std::vector<Rank> ranks_;            // [world_size]
  int num_left_ = 0;                   // ranks that left only this meeting
  int arrived_ = 0;                    // ranks that wait for this meeting
  int copying_ = 0;                    // ranks that still copy from the last meeting
  std::int64_t meetings_ = 0;          // completed meetings
};

}  // namespace zeroproof
