#include "cuda/sim/work_queue.hpp"

#include <utility>

#include "cuda/sim/capture.hpp"

namespace zeroproof::cuda::sim {

std::recursive_mutex& device_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

void WorkQueue::push(QueuedWork work) {
  if (capture) {
    capture->push(branch, std::move(work));
  } else {
    work_.push_back(std::move(work));
  }
}

void WorkQueue::run_front() {
  const QueuedWork& work = work_.front();
  try {
    if (work.until.queue) work.until.queue->run_until(work.until.position);
    if (work.run) work.run();
  } catch (...) {
    done_ = given();
    work_.clear();
    throw;
  }
  work_.pop_front();
  ++done_;
}

void WorkQueue::run_until(std::int64_t position) {
  while (!passed(position)) run_front();
}

bool WorkQueue::run_one() {
  if (work_.empty()) return false;
  const Mark& until = work_.front().until;
  if (until.queue && !until.queue->passed(until.position)) return until.queue->run_one();
  run_front();
  return true;
}

}  // namespace zeroproof::cuda::sim
