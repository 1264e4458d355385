#include "tests/cuda/optimizer/overlap/worst_case_streams.hpp"

#include "common/base/error.hpp"

namespace zeroproof::tests {

void WorstCaseStreams::run(const cuda::StepPlan& plan, const cuda::PlanBody& body) {
  plan_ = &plan;
  body_ = &body;
  queues_ = {};
  recorded_.assign(static_cast<std::size_t>(plan.num_events), false);
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    queues_[static_cast<std::size_t>(plan.ops[i].stream)].ops.push_back(i);
  }
  const auto eager = static_cast<std::size_t>(eager_);
  for (Queue* queue : {&queues_[eager], &queues_[1 - eager]}) {
    while (queue->next < queue->ops.size()) run_next(*queue);
  }
}

void WorstCaseStreams::run_next(Queue& queue) {
  const cuda::PlanOp& op = plan_->ops[queue.ops[queue.next]];
  queue.busy = true;
  for (const int event : op.waits) run_until(event, op);
  queue.busy = false;
  ++queue.next;
  (*body_)(op);
  if (op.records >= 0) recorded_.at(op.records) = true;
}

void WorstCaseStreams::run_until(int event, const cuda::PlanOp& waiter) {
  Queue& other = queues_[1 - static_cast<std::size_t>(waiter.stream)];
  while (!recorded_.at(event)) {
    ZP_CHECK(!other.busy && other.next < other.ops.size(), ErrorCode::internal,
             name(waiter) + " waits for an event that no operation will record",
             "the other stream has ended or is waiting",
             "audit the plan (cuda/optimizer/overlap/plan_audit.hpp)");
    run_next(other);
  }
}

}  // namespace zeroproof::tests
