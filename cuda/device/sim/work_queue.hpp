#pragma once
// The work of a simulated stream, and marks in it.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace zeroproof::cuda::sim {

class WorkQueue;
class Capture;

/// The end of a queue at some time.
struct Mark {
  std::shared_ptr<WorkQueue> queue;  ///< null: never recorded
  std::int64_t position = 0;
  std::shared_ptr<Capture> capture;  ///< of the graph that contains it; null: none
};

/// A piece of work, or a wait for a mark.
struct QueuedWork {
  std::function<void()> run;
  Mark until = {};
};

/// Nothing in it runs by itself: a thread that waits runs it, or in the order `early` one that
/// enqueues. All calls but passed() hold device_mutex().
class WorkQueue {
 public:
  void push(QueuedWork work);
  std::int64_t end_position() const { return done_ + static_cast<std::int64_t>(work_.size()); }
  bool passed(std::int64_t position) const { return done_ >= position; }

  /// Whether run_one() would run a piece.
  bool ready() const;
  /// Runs one piece of work, here or in a queue that this one waits for. False if there is none, or
  /// only one that waits for a mark that is not enqueued yet. Rethrows exceptions of the work; the
  /// rest of the queue is dropped then.
  bool run_one();
  /// Runs all work that can run, here and in queues that this one waits for, for a thread that does
  /// not wait for it: an exception of the work is kept, and the next run_one() rethrows it. Returns
  /// whether anything ran.
  bool run_early();
  /// Runs the work before the position. False if it did not reach it.
  bool run_until(std::int64_t position);

  std::shared_ptr<Capture> capture;  ///< receives pushed work during a capture
  int branch = 0;                    ///< its branch in the capture
  int pace = 1;  ///< pieces of work that the next poll of an event of this queue runs

 private:
  WorkQueue* next();
  void run_and_keep_failure();

  std::atomic<std::int64_t> done_ = 0;
  std::deque<QueuedWork> work_;
  bool failed_ = false;  ///< the first piece of work rethrows an exception of run_early()
};

/// One for the process: the simulated device does one thing at a time.
std::recursive_mutex& device_mutex();

}  // namespace zeroproof::cuda::sim
