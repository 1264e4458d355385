#pragma once
// Runs plans on two threads: the caller is the compute stream.

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda/optimizer/overlap/plan_runner.hpp"

namespace zeroproof::cuda {

/// One operation as it ran, in nanoseconds of the steady clock.
struct OpSpan {
  PlanStream stream = PlanStream::compute;
  std::string name;  ///< "backward of unit 3"
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

/// Hooks to observe and disturb the run of a plan. Both are called on the stream's own thread,
/// hence from two threads at once; an empty one costs nothing.
struct ExecutorHooks {
  std::function<void(const OpSpan&)> trace;
  /// After the waits of an operation and before it runs. num_runs counts the earlier runs of this
  /// executor.
  std::function<void(const PlanOp&, std::size_t op, std::uint64_t num_runs)> before;
};

/// A `before` hook that sleeps before some operations: different timings, but the same for the same
/// seed.
struct RandomDelays {
  std::uint64_t seed = 1;
  std::array<double, num_plan_streams> probability{};  ///< [stream] that an operation is delayed
  std::int64_t max_microseconds = 100;

  /// Delay of this operation; 0: none.
  std::chrono::microseconds delay(const PlanOp& op, std::size_t index,
                                  std::uint64_t num_runs) const;

  void operator()(const PlanOp& op, std::size_t index, std::uint64_t num_runs) const;
};

/// Operations of the comm stream run on a separate thread, which is started when a plan first has
/// some and kept until the executor is destroyed. In plans without them there is no second thread.
/// A communicator used by the comm stream must not be used elsewhere during run().
///
/// An operation that throws ends both streams before their next operation. An operation that is
/// already running is waited for, so a collective has to end by itself when its ranks do
/// (Communicator).
class PlanExecutor final : public PlanRunner {
 public:
  /// who: names the caller in errors, "rank 2".
  explicit PlanExecutor(std::string who = "host", ExecutorHooks hooks = {});
  ~PlanExecutor() override;

  PlanExecutor(const PlanExecutor&) = delete;
  PlanExecutor& operator=(const PlanExecutor&) = delete;

  /// One run at a time. Errors: PlanRunner's; fp_environment if a stream's thread has a wrong one
  /// (R3), checked before every operation; unavailable if the thread cannot be started.
  void run(const StepPlan& plan, const PlanBody& body) override;

 private:
  struct Job {
    const StepPlan* plan = nullptr;
    const PlanBody* body = nullptr;
    std::vector<bool> recorded;  // [events]
    std::array<const PlanOp*, num_plan_streams>
        waiting;  // an operation whose waits are not satisfied, or null
    std::array<bool, num_plan_streams> ended;
    std::exception_ptr failure;
  };

  void serve();
  void run_stream(PlanStream stream);
  bool wait(PlanStream stream, const PlanOp& op);
  void run_op(const PlanOp& op, std::size_t index) const;
  bool satisfied(const PlanOp& op) const;

  const std::string who_;
  const ExecutorHooks hooks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Job job_;
  bool comm_has_work_ = false;
  bool stops_ = false;
  std::uint64_t num_runs_ = 0;
  std::thread thread_;
};

}  // namespace zeroproof::cuda
