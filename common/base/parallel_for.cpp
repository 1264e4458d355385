#include "common/base/parallel_for.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "common/base/error.hpp"

namespace zeroproof {

void parallel_for(int num_threads, std::int64_t count,
                  const std::function<void(std::int64_t)>& body) {
  ZP_CHECK(num_threads >= 1, ErrorCode::invalid_argument,
           "num_threads is " + std::to_string(num_threads), "the caller is a thread as well",
           "use 1 or more");
  ZP_CHECK(count >= 0, ErrorCode::invalid_argument, "count is " + std::to_string(count),
           "it is a number of items", "use 0 or more");
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  std::int64_t error_index = count;
  const auto work = [&] {
    for (std::int64_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < error_index) {
          error_index = i;
          error = std::current_exception();
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::int64_t t = 1; t < std::min<std::int64_t>(num_threads, count); ++t) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // no more threads available: the existing ones run all items
    }
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

int available_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace zeroproof
