#include "common/base/thread_pool.hpp"

#include <doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.hpp"

namespace thread_pool_test {

using namespace zeroproof;

namespace {

/// Returns when `count` threads are in wait() at once.
class Gathering {
 public:
  explicit Gathering(int count) : count_(count) {}
  void wait() {
    std::unique_lock lock(mutex_);
    if (++there_ == count_) all_.notify_all();
    all_.wait(lock, [&] { return there_ >= count_; });
  }

 private:
  const int count_;
  int there_ = 0;
  std::mutex mutex_;
  std::condition_variable all_;
};

}  // namespace

TEST_CASE("ThreadPool: every item runs once, in repeated calls") {
  for (const int threads : {1, 2, 5}) {
    ThreadPool thread_pool(threads);
    CHECK(thread_pool.num_threads() == threads);
    for (const int count : {0, 1, 4, 100}) {
      std::vector<std::atomic<int>> calls(count);
      thread_pool.for_each(count, [&](std::int64_t i) { ++calls[i]; });
      for (const auto& call : calls) CHECK(call == 1);
    }
  }
}

TEST_CASE("ThreadPool: one thread runs its items in order, on the calling thread") {
  ThreadPool thread_pool(1);
  std::vector<std::int64_t> order;
  thread_pool.for_each(5, [&](std::int64_t i) { order.push_back(i); });
  CHECK(order == std::vector<std::int64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("ThreadPool: all threads run at once, also for nested work") {
  ThreadPool thread_pool(3);
  Gathering outer(3);
  std::atomic<int> met{0};
  const auto meet = [&](Gathering& gathering) {
    gathering.wait();
    ++met;
  };
  thread_pool.for_each(3, [&](std::int64_t) { meet(outer); });
  Gathering inner(3);  // two of them are threads that are idle in the outer work
  thread_pool.for_each(
      1, [&](std::int64_t) { thread_pool.for_each(3, [&](std::int64_t) { meet(inner); }); });
  CHECK(met == 6);
}

TEST_CASE("ThreadPool: waiting thread runs nested work") {
  ThreadPool thread_pool(2);
  Gathering outer(2);
  std::mutex mutex;
  std::condition_variable arrived;
  int inside = 0;
  int met = 0;
  const std::thread::id caller = std::this_thread::get_id();
  thread_pool.for_each(2, [&](std::int64_t) {
    outer.wait();
    if (std::this_thread::get_id() == caller) return;  // and waits for the other item
    thread_pool.for_each(2, [&](std::int64_t) {
      std::unique_lock lock(mutex);
      if (++inside == 2) arrived.notify_all();
      met += arrived.wait_for(lock, std::chrono::seconds(10), [&] { return inside == 2; }) ? 1 : 0;
    });
  });
  CHECK(met == 2);
}

TEST_CASE("ThreadPool: never runs more threads than it has") {
  ThreadPool thread_pool(3);
  std::atomic<int> working{0}, most{0};
  thread_pool.for_each(4, [&](std::int64_t) {
    thread_pool.for_each(50, [&](std::int64_t) {
      const int now = ++working;
      for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      --working;
    });
  });
  CHECK(most >= 1);
  CHECK(most <= 3);
}

TEST_CASE(
    "ThreadPool: the first exception by index is rethrown when all items have ended, and the pool "
    "stays usable") {
  ThreadPool thread_pool(4);
  std::atomic<int> done{0};
  for (int again = 0; again < 2; ++again) {
    std::string said;
    try {
      thread_pool.for_each(40, [&](std::int64_t i) {
        ++done;
        if (i % 10 == 7) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& error) {
      said = error.what();
    }
    CHECK(said == "7");
    CHECK(done == 40 * (again + 1));
  }
}

TEST_CASE("ThreadPool: zero threads and negative counts are rejected") {
  CHECK_THROWS_AS(ThreadPool(0), Error);
  ThreadPool thread_pool(2);
  CHECK_THROWS_AS(thread_pool.for_each(-1, [](std::int64_t) {}), Error);
}

}  // namespace thread_pool_test
