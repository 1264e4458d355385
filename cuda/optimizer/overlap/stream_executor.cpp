#include "cuda/optimizer/overlap/stream_executor.hpp"

#include "common/base/error.hpp"

namespace zeroproof::cuda {

void StreamExecutor::run_op(const PlanOp& op, const PlanBody& body, device::Stream& compute) {
  device::Stream& stream = op.stream == PlanStream::compute ? compute : comm_;
  const device::UseStream use(stream);
  for (const int event : op.waits) {
    // A wait on a device stream for an event that was never recorded has no effect.
    ZP_CHECK(recorded_.at(event), ErrorCode::internal,
             name(op) + " waits for an event that is recorded later",
             "on a device such a wait has no effect",
             "audit the plan (cuda/optimizer/overlap/plan_audit.hpp)");
    stream.wait_for(events_[event]);
  }
  body(op);
  if (op.records < 0) return;
  events_[op.records].record();
  recorded_[op.records] = true;
}

void StreamExecutor::run(const StepPlan& plan, const PlanBody& body) {
  const auto num_events = static_cast<std::size_t>(plan.num_events);
  while (events_.size() < num_events) events_.emplace_back();
  recorded_.assign(num_events, false);
  device::Stream& compute = device::current_stream();
  begun_.record();
  comm_.wait_for(begun_);
  const auto join = [&] {
    const device::UseStream use(comm_);
    ended_.record();
    compute.wait_for(ended_);
  };
  try {
    for (const PlanOp& op : plan.ops) run_op(op, body, compute);
  } catch (...) {
    join();
    throw;
  }
  join();
}

}  // namespace zeroproof::cuda
