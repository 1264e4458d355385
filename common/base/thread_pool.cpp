#include "common/base/thread_pool.hpp"

#include <algorithm>
#include <string>
#include <system_error>

#include "common/base/error.hpp"

namespace zeroproof {

ThreadPool::ThreadPool(int num_threads) {
  ZP_CHECK(num_threads >= 1, ErrorCode::invalid_argument,
           "num_threads is " + std::to_string(num_threads), "the caller is a thread as well",
           "use 1 or more");
  for (int i = 1; i < num_threads; ++i) {
    try {
      helpers_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {
      break;  // no more threads available: the existing ones run all items
    }
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::help() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return over_ || !open_.empty(); });
    if (over_) return;
    run_next(*open_.front(), lock);
  }
}

/// Runs one item of the open `work`, with the lock released.
void ThreadPool::run_next(Work& work, std::unique_lock<std::mutex>& lock) {
  const std::int64_t i = work.next++;
  if (work.next == work.count) open_.remove(&work);
  lock.unlock();
  std::exception_ptr error;
  try {
    (*work.body)(i);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error && (!work.error || i < work.error_index)) {
    work.error = error;
    work.error_index = i;
  }
  if (++work.done == work.count) changed_.notify_all();
}

void ThreadPool::for_each(std::int64_t count, const std::function<void(std::int64_t)>& body) {
  ZP_CHECK(count >= 0, ErrorCode::invalid_argument, "count is " + std::to_string(count),
           "it is a number of items", "use 0 or more");
  if (count == 0) return;
  std::unique_lock lock(mutex_);
  Work work{&body, count, opened_++, 0, 0, nullptr, 0};
  open_.push_back(&work);
  changed_.notify_all();
  while (work.next < work.count) run_next(work, lock);
  while (work.done < work.count) {
    // Work that was opened later never encloses this one, so the caller returns after one item of
    // it.
    if (!open_.empty() && open_.back()->opened > work.opened) {
      run_next(*open_.back(), lock);
    } else {
      changed_.wait(lock);
    }
  }
  if (work.error) std::rethrow_exception(work.error);
}

}  // namespace zeroproof
