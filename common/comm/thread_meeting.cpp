#include "common/comm/thread_meeting.hpp"

#include <cstddef>
#include <utility>

#include "common/comm/exchange_communicator.hpp"

namespace zeroproof {

ThreadMeeting::ThreadMeeting(int world_size, std::chrono::milliseconds timeout)
    : timeout_(timeout),
      calls_(static_cast<std::size_t>(world_size)),
      ranks_(static_cast<std::size_t>(world_size)) {}

void ThreadMeeting::exchange(int rank, CollectiveCall call, Span<const Span<const std::byte>> send,
                             Span<const Span<std::byte>> recv) {
  arrive(rank, std::move(call), send);
  // No lock: a rank changes its entry only after finish().
  for (std::size_t from = 0; from < recv.size(); ++from) {
    copy_block(ranks_[from].send[static_cast<std::size_t>(rank)], recv[from]);
  }
  finish();
}

void ThreadMeeting::abort(int rank, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  culprit_ = rank;
  break_with(ended_error(rank, reason));
}

void ThreadMeeting::return_all() {
  const std::lock_guard lock(mutex_);
  for (Rank& rank : ranks_) rank.left = false;
}

void ThreadMeeting::leave(int rank) {
  const std::lock_guard lock(mutex_);
  ranks_[static_cast<std::size_t>(rank)].left = true;
  if (arrived_ > 0) check_left();
}

int ThreadMeeting::culprit() {
  const std::lock_guard lock(mutex_);
  return culprit_;
}

void ThreadMeeting::arrive(int rank, CollectiveCall call, Span<const Span<const std::byte>> send) {
  const std::size_t self = static_cast<std::size_t>(rank);
  std::unique_lock lock(mutex_);
  if (failure_) throw Error(*failure_);
  Rank& mine = ranks_[self];
  if (mine.present) {
    break_with(
        Error(ErrorCode::comm, "rank " + std::to_string(rank) + " is in two collectives at once (a rank is " +
                                   "one thread); use each rank's communicator in one thread at a time"));
    throw Error(*failure_);
  }
  call.sequence = ++mine.num_calls;
  calls_[self] = std::move(call);
  mine.send = send;
  mine.present = true;
  ++arrived_;
  const std::int64_t meeting = meetings_;
  if (arrived_ == world_size()) {
    open();
  } else {
    check_left();
    const auto done = [&] { return meetings_ != meeting || failure_; };
    if (!changed_.wait_for(lock, timeout_, done)) {
      break_with(absent_error(missing(), calls_[self], timeout_));
    }
  }
  // A meeting that took place is completed even if the world broke since: other ranks copy from this one's
  // memory.
  if (meetings_ == meeting) throw Error(*failure_);
}

void ThreadMeeting::open() {
  const std::string problem = disagreement(calls_);
  if (!problem.empty()) return break_with(Error(ErrorCode::comm, problem));
  for (Rank& rank : ranks_) rank.present = false;
  arrived_ = 0;
  copying_ = world_size();
  ++meetings_;
  changed_.notify_all();
}

/// Without time limit: what is waited for is only other threads' memcpy.
void ThreadMeeting::finish() {
  std::unique_lock lock(mutex_);
  if (--copying_ == 0) return changed_.notify_all();
  changed_.wait(lock, [&] { return copying_ == 0; });
}

std::vector<int> ThreadMeeting::missing() const {
  std::vector<int> result;
  for (int rank = 0; rank < world_size(); ++rank) {
    if (!ranks_[static_cast<std::size_t>(rank)].present) result.push_back(rank);
  }
  return result;
}

/// Breaks the world if somebody waits for a rank that will not come.
void ThreadMeeting::check_left() {
  std::vector<int> left;
  for (const int rank : missing()) {
    if (ranks_[static_cast<std::size_t>(rank)].left) left.push_back(rank);
  }
  if (left.empty() || failure_) return;
  for (std::size_t waiting = 0; waiting < ranks_.size(); ++waiting) {
    if (ranks_[waiting].present) return break_with(left_error(left, calls_[waiting]));
  }
}

void ThreadMeeting::break_with(Error error) {
  if (failure_) return;
  failure_ = std::move(error);
  changed_.notify_all();
}

}  // namespace zeroproof
