#include "cuda/device/sim/work_queue.hpp"

#include <utility>

#include "cuda/device/sim/capture.hpp"

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
    pace = 1;
  }
}

bool WorkQueue::ready() const {
  if (work_.empty()) return false;
  const Mark& until = work_.front().until;
  return !until.queue || until.queue->passed(until.position) || until.queue->ready();
}

bool WorkQueue::run_one() {
  if (work_.empty()) return false;
  const QueuedWork& work = work_.front();
  try {
    if (work.until.queue && !work.until.queue->passed(work.until.position))
      return work.until.queue->run_one();
    if (work.run) work.run();
  } catch (...) {
    done_ = end_position();
    work_.clear();
    throw;
  }
  work_.pop_front();
  ++done_;
  return true;
}

bool WorkQueue::run_until(std::int64_t position) {
  while (!passed(position)) {
    if (!run_one()) return false;
  }
  return true;
}

}  // namespace zeroproof::cuda::sim
