#pragma once
// Simulated streams: plans on one thread, each operation as late as its waits allow.
//
// stream_executor.hpp runs the same plans on a device.

#include <array>
#include <cstddef>
#include <vector>

#include "cuda/optimizer/overlap/plan_runner.hpp"

namespace zeroproof::tests {

/// Runs one stream eagerly in order, and of the other only the operations that a wait needs, up to
/// the one that records the event; the rest runs at the end. Two unordered operations of different
/// streams therefore run in one order when the first stream is the eager one and in the other order
/// when the second is: a missing wait is detected in one of the two, as NaN or as a missing buffer.
class WorstCaseStreams final : public cuda::PlanRunner {
 public:
  explicit WorstCaseStreams(cuda::PlanStream eager) : eager_(eager) {}

  void run(const cuda::StepPlan& plan, const cuda::PlanBody& body) override;

 private:
  struct Queue {
    std::vector<std::size_t> ops;
    std::size_t next = 0;
    bool busy = false;  // an operation of this stream waits for the other one
  };

  void run_next(Queue& queue);
  void run_until(int event, const cuda::PlanOp& waiter);

  const cuda::PlanStream eager_;
  const cuda::StepPlan* plan_ = nullptr;
  const cuda::PlanBody* body_ = nullptr;
  std::array<Queue, cuda::num_plan_streams> queues_;
  std::vector<bool> recorded_;  // [events]
};

}  // namespace zeroproof::tests
