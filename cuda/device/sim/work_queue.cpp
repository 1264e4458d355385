#include "cuda/device/sim/work_queue.hpp"

#include <exception>
#include <utility>

#include "cuda/device/sim/capture.hpp"
#include "cuda/device/sim/current.hpp"

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
    run_if_early(*this);
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
    failed_ = false;
    throw;
  }
  work_.pop_front();
  ++done_;
  return true;
}

/// The queue whose first piece run_one() would run; null if there is none.
WorkQueue* WorkQueue::next() {
  if (work_.empty()) return nullptr;
  const Mark& until = work_.front().until;
  return !until.queue || until.queue->passed(until.position) ? this : until.queue->next();
}

void WorkQueue::run_and_keep_failure() {
  try {
    if (work_.front().run) work_.front().run();
  } catch (...) {
    failed_ = true;
    work_.front().run = [error = std::current_exception()] { std::rethrow_exception(error); };
    return;
  }
  work_.pop_front();
  ++done_;
}

bool WorkQueue::run_early() {
  bool ran = false;
  for (WorkQueue* queue = next(); queue != nullptr && !queue->failed_; queue = next()) {
    queue->run_and_keep_failure();
    ran = true;
  }
  return ran;
}

bool WorkQueue::run_until(std::int64_t position) {
  while (!passed(position)) {
    if (!run_one()) return false;
  }
  return true;
}

}  // namespace zeroproof::cuda::sim
