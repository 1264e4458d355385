#pragma once
// Threads that exist before the clock starts and sleep between two loops.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace zeroproof::verification::bench {

/// Ranges are split at multiples of this many elements, as in the host implementations.
inline constexpr std::int64_t work_block = 16384;

class WorkerTeam {
 public:
  using Body = std::function<void(std::int64_t begin, std::int64_t end)>;

  /// num_threads counts the caller of run(), so num_threads - 1 are started.
  explicit WorkerTeam(int num_threads);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  /// Cuts [0, numel) into one range per thread, at multiples of work_block, and calls body for each range
  /// that is not empty. Returns when all have ended. body must not throw.
  void run(std::int64_t numel, const Body& body);

 private:
  void work(int thread);
  void run_range(int thread) const;

  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::vector<std::thread> threads_;
  int num_threads_;
  int running_ = 0;
  std::int64_t round_ = 0;
  bool stop_ = false;
  std::int64_t numel_ = 0;
  const Body* body_ = nullptr;
};

}  // namespace zeroproof::verification::bench
