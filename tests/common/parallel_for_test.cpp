#include "common/base/parallel_for.hpp"

#include <doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "common/base/error.hpp"

namespace parallel_for_test {

using namespace zeroproof;

namespace {

void rest(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

bool refuses(int num_threads, std::int64_t count) {
  bool called = false;
  try {
    parallel_for(num_threads, count, [&](std::int64_t) { called = true; });
  } catch (const Error& error) {
    return error.code() == ErrorCode::invalid_argument && !called;
  }
  return false;
}

}  // namespace

TEST_CASE("parallel_for: every index exactly once") {
  for (const int num_threads : {1, 2, 3, 8, 33}) {
    for (const std::int64_t count : {0, 1, 2, 7, 8, 9, 1000, 20000}) {
      std::vector<std::atomic<int>> calls(count);
      std::atomic<int> outside{0};
      parallel_for(num_threads, count, [&](std::int64_t i) {
        if (i < 0 || i >= count) {
          ++outside;
        } else {
          ++calls[i];
        }
      });
      CAPTURE(num_threads);
      CAPTURE(count);
      CHECK(outside == 0);
      CHECK(std::all_of(calls.begin(), calls.end(),
                        [](const std::atomic<int>& n) { return n == 1; }));
    }
  }
}

TEST_CASE("parallel_for: at most num_threads threads, and more than one") {
  for (const int num_threads : {1, 2, 5}) {
    std::mutex mutex;
    std::condition_variable changed;
    std::set<std::thread::id> threads;
    bool met = true;
    parallel_for(num_threads, 40, [&](std::int64_t) {
      std::unique_lock lock(mutex);
      threads.insert(std::this_thread::get_id());
      changed.notify_all();
      // No thread continues before all have begun. The limit only ends the test after a defect.
      met = changed.wait_for(lock, std::chrono::minutes(met ? 1 : 0), [&] {
        return static_cast<int>(threads.size()) >= num_threads;
      }) && met;
    });
    CAPTURE(num_threads);
    CHECK(met);
    CHECK(static_cast<int>(threads.size()) == num_threads);
  }
}

// The lower the index, the later it throws, so "first by index" and "first in time" are different exceptions.
TEST_CASE("parallel_for: the exception of the lowest index wins, after all bodies have ended") {
  for (const int num_threads : {1, 2, 4, 8}) {
    std::atomic<int> running{0};
    std::string what;
    try {
      parallel_for(num_threads, 16, [&](std::int64_t i) {
        ++running;
        if (i % 2 == 1) rest(static_cast<int>(32 - 2 * i));
        --running;
        if (i % 2 == 1) throw std::out_of_range("index " + std::to_string(i));
      });
    } catch (const std::out_of_range& error) {
      CHECK(running == 0);
      what = error.what();
    }
    CAPTURE(num_threads);
    CHECK(what == "index 1");
  }
}

TEST_CASE("parallel_for: no body runs after the exception") {
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::atomic<int> running{0};
    int running_at_catch = -1;
    try {
      parallel_for(4, 8, [&](std::int64_t i) {
        ++running;
        if (i == 0) {
          --running;
          throw std::runtime_error("early");
        }
        rest(1);
        --running;
      });
    } catch (const std::runtime_error&) {
      running_at_catch = running;
    }
    CHECK(running_at_catch == 0);
  }
}

TEST_CASE("parallel_for: any type of exception is rethrown, on one thread and on many") {
  for (const int num_threads : {1, 3}) {
    CHECK_THROWS_AS(parallel_for(num_threads, 5,
                                 [](std::int64_t i) {
                                   if (i == 4) throw 42;
                                 }),
                    int);
    bool right = false;
    try {
      parallel_for(num_threads, 5, [](std::int64_t i) {
        if (i == 2) fail(ErrorCode::timeout, "p", "w", "r");
      });
    } catch (const Error& error) {
      right = error.code() == ErrorCode::timeout && error.what() == std::string("p (w); r");
    }
    CHECK(right);
  }
}

TEST_CASE("parallel_for: works again after an exception, and inside itself") {
  CHECK_THROWS_AS(parallel_for(2, 2, [](std::int64_t) { throw 1; }), int);
  std::atomic<std::int64_t> sum{0};
  parallel_for(3, 10, [&](std::int64_t i) {
    parallel_for(2, 10, [&](std::int64_t j) { sum += 10 * i + j; });
  });
  CHECK(sum == 4950);
}

TEST_CASE("parallel_for: invalid arguments") {
  CHECK(refuses(0, 5));
  CHECK(refuses(-1, 5));
  CHECK(refuses(0, 0));
  CHECK(refuses(1, -1));
  CHECK(refuses(4, INT64_MIN));
}

TEST_CASE("available_cores: number of cores in the affinity mask of the process") {
  CHECK(available_cores() >= 1);
#if defined(__linux__)
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  CHECK(available_cores() == CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  const int cores = available_cores();
  REQUIRE(sched_setaffinity(0, sizeof(before), &before) == 0);
  CHECK(cores == 1);
#endif
}

}  // namespace parallel_for_test
