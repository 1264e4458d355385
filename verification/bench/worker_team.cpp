#include "verification/bench/worker_team.hpp"

#include <algorithm>

namespace zeroproof::verification::bench {

static_assert(work_block % 1024 == 0);  // required by the streamed limit loops

WorkerTeam::WorkerTeam(int num_threads) : num_threads_(num_threads) {
  for (int thread = 1; thread < num_threads; ++thread)
    threads_.emplace_back([this, thread] { work(thread); });
}

WorkerTeam::~WorkerTeam() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerTeam::run(std::int64_t numel, const Body& body) {
  {
    const std::lock_guard lock(mutex_);
    numel_ = numel;
    body_ = &body;
    running_ = num_threads_ - 1;
    ++round_;
  }
  start_.notify_all();
  run_range(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
}

void WorkerTeam::work(int thread) {
  for (std::int64_t seen = 0;;) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
    }
    run_range(thread);
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) done_.notify_one();
  }
}

void WorkerTeam::run_range(int thread) const {
  constexpr std::int64_t block = work_block;
  const std::int64_t blocks = (numel_ + block - 1) / block;
  const std::int64_t begin = blocks * thread / num_threads_ * block;
  const std::int64_t end = std::min(blocks * (thread + 1) / num_threads_ * block, numel_);
  if (begin < end) (*body_)(begin, end);
}

}  // namespace zeroproof::verification::bench
