#pragma once
// Persistent threads for nested work: groups of cases, and the cases of each.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace zeroproof {

/// parallel_for() with persistent threads. A body may call for_each() itself: idle threads help
/// there, so that never more than num_threads threads run items.
class ThreadPool {
 public:
  /// num_threads: that run items at the same time, the caller of for_each() included; fewer, if the
  /// system has no more. Errors: invalid_argument if num_threads < 1.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(helpers_.size()) + 1; }

  /// Calls body(i) for every i in [0, count), on the calling thread and on all idle threads; with
  /// one thread in order. Which thread runs which i is not fixed, so body must not depend on it.
  /// While other threads run the last items, the caller runs items of work that was opened after
  /// this one: it must hold no lock that any body takes. The first exception (by index) is rethrown
  /// when all items have ended.
  void for_each(std::int64_t count, const std::function<void(std::int64_t)>& body);

 private:
  struct Work {
    const std::function<void(std::int64_t)>* body;
    std::int64_t count;
    std::uint64_t opened;  // number of works opened before
    std::int64_t next = 0;
    std::int64_t done = 0;
    std::exception_ptr error;
    std::int64_t error_index = 0;
  };

  void help();
  void run_next(Work& work, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Work*> open_;  // works with items not yet begun, outermost first
  std::uint64_t opened_ = 0;
  bool over_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace zeroproof
