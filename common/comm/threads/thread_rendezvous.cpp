#include "common/comm/threads/thread_rendezvous.hpp"

#include <cstddef>
#include <utility>

namespace zeroproof {

void ThreadDomain::break_with(const Error& error) {
  if (failure) return;
  failure = error;
  for (ThreadRendezvous* meeting : meetings) meeting->changed_.notify_all();
}

ThreadRendezvous::ThreadRendezvous(int world_size, std::chrono::milliseconds timeout,
                                   std::shared_ptr<FlightRecorders> recorders)
    : domain_(std::make_shared<ThreadDomain>(world_size, std::move(recorders))),
      timeout_(timeout),
      channel_(next_channel()),
      calls_(static_cast<std::size_t>(world_size)),
      ranks_(static_cast<std::size_t>(world_size)) {
  domain_->meetings.insert(this);
}

ThreadRendezvous::ThreadRendezvous(const ThreadRendezvous& parent, const std::vector<int>& members)
    : domain_(parent.domain_),
      timeout_(parent.timeout_),
      channel_(next_channel()),
      calls_(members.size()),
      ranks_(members.size()) {
  for (const int member : members)
    names_.in_world.push_back(static_cast<int>(parent.in_world(member)));
  const std::lock_guard lock(domain_->mutex);
  domain_->meetings.insert(this);
}

ThreadRendezvous::~ThreadRendezvous() {
  const std::lock_guard lock(domain_->mutex);
  domain_->meetings.erase(this);
}

std::size_t ThreadRendezvous::in_world(int rank) const {
  return static_cast<std::size_t>(is_group() ? names_.in_world[rank] : rank);
}

void ThreadRendezvous::exchange(int rank, CollectiveCall call,
                                Span<const Span<const std::byte>> send, const TakeBlock& take) {
  ScopedCallRecord recorded(recorder_of(rank));
  arrive(rank, std::move(call), send, recorded);
  recorded.move();
  // No lock: a rank changes its entry only after finish().
  try {
    for (std::size_t from = 0; from < ranks_.size(); ++from) {
      take(from, ranks_[from].send[rank]);
    }
  } catch (...) {
    finish();  // the others wait there
    throw;
  }
  finish();
  recorded.end();
}

int ThreadRendezvous::next_channel() const {
  return domain_->recorders ? domain_->recorders->channels++ : 0;
}

FlightRecorder* ThreadRendezvous::recorder_of(int rank) const {
  return domain_->recorders ? &domain_->recorders->ranks[in_world(rank)] : nullptr;
}

void ThreadRendezvous::abort(int rank, const std::string& reason) {
  const std::lock_guard lock(domain_->mutex);
  if (domain_->failure) return;
  domain_->culprit = static_cast<int>(in_world(rank));
  domain_->break_with(ended_error(rank, reason, names_));
}

void ThreadRendezvous::leave(int rank) {
  const std::lock_guard lock(domain_->mutex);
  ranks_[rank].left = true;
  ++num_left_;
  check_left();
}

void ThreadRendezvous::leave_all(int rank) {
  const std::lock_guard lock(domain_->mutex);
  domain_->left[rank] = true;
  ++domain_->num_left;
  for (ThreadRendezvous* meeting : domain_->meetings) meeting->check_left();
}

void ThreadRendezvous::return_all() {
  const std::lock_guard lock(domain_->mutex);
  domain_->left.assign(domain_->left.size(), false);
  domain_->num_left = 0;
}

int ThreadRendezvous::culprit() {
  const std::lock_guard lock(domain_->mutex);
  return domain_->culprit;
}

void ThreadRendezvous::arrive(int rank, CollectiveCall call, Span<const Span<const std::byte>> send,
                              ScopedCallRecord& recorded) {
  const std::size_t self = static_cast<std::size_t>(rank);
  std::unique_lock lock(domain_->mutex);
  if (domain_->failure) throw Error(*domain_->failure);
  Rank& mine = ranks_[self];
  if (mine.present) {
    domain_->break_with(
        Error(ErrorCode::comm, describe_rank(rank, names_) +
                                   " is in two collectives at once (a rank is one thread); "
                                   "use each rank's communicator in one thread at a time"));
    throw Error(*domain_->failure);
  }
  call.sequence = ++mine.num_calls;
  recorded.begin(call, channel_);
  calls_[self] = std::move(call);
  mine.send = send;
  mine.present = true;
  ++arrived_;
  const std::int64_t meeting = meetings_;
  if (arrived_ == world_size()) {
    open();
  } else {
    check_left();
    wait_for_all(lock, rank, meeting);
  }
  // A complete meeting is finished even if the world failed since: other ranks copy from this one's
  // memory.
  if (meetings_ == meeting) throw Error(*domain_->failure);
}

void ThreadRendezvous::wait_for_all(std::unique_lock<std::mutex>& lock, int rank,
                                    std::int64_t meeting) {
  const auto done = [&] { return meetings_ != meeting || domain_->failure; };
  int& waiting = domain_->waiting[in_world(rank)];
  ++waiting;
  bool in_time = changed_.wait_for(lock, timeout_, done);
  // Ranks that wait in another meeting are not the cause: their own time limit will name the rank
  // that is absent there. If they wait for each other, the second limit ends it.
  if (!in_time && holding_up().empty()) in_time = changed_.wait_for(lock, timeout_, done);
  --waiting;
  if (in_time) return;
  const std::vector<int> blamed = holding_up();
  domain_->break_with(
      absent_error(blamed.empty() ? missing() : blamed, calls_[rank], timeout_, names_));
}

void ThreadRendezvous::open() {
  const std::string problem = disagreement(calls_, names_);
  if (!problem.empty()) return domain_->break_with(Error(ErrorCode::comm, problem));
  for (Rank& rank : ranks_) rank.present = false;
  arrived_ = 0;
  copying_ = world_size();
  ++meetings_;
  changed_.notify_all();
}

/// Without time limit: other threads only copy or enqueue copies here.
void ThreadRendezvous::finish() {
  std::unique_lock lock(domain_->mutex);
  if (--copying_ == 0) return changed_.notify_all();
  changed_.wait(lock, [&] { return copying_ == 0; });
}

std::vector<int> ThreadRendezvous::missing() const {
  std::vector<int> result;
  for (int rank = 0; rank < world_size(); ++rank) {
    if (!ranks_[rank].present) result.push_back(rank);
  }
  return result;
}

/// Of the missing ranks, those that do not wait in another meeting.
std::vector<int> ThreadRendezvous::holding_up() const {
  std::vector<int> result;
  for (const int rank : missing()) {
    if (domain_->waiting[in_world(rank)] == 0) result.push_back(rank);
  }
  return result;
}

/// Fails the world if a rank waits here for a rank that will not come.
void ThreadRendezvous::check_left() {
  if (arrived_ == 0 || num_left_ + domain_->num_left == 0 || domain_->failure) return;
  std::vector<int> left;
  for (const int rank : missing()) {
    if (ranks_[rank].left || domain_->left[in_world(rank)]) left.push_back(rank);
  }
  if (left.empty()) return;
  for (std::size_t waiting = 0; waiting < ranks_.size(); ++waiting) {
    if (ranks_[waiting].present)
      return domain_->break_with(left_error(left, calls_[waiting], names_));
  }
}

}  // namespace zeroproof
