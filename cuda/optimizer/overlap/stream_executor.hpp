#pragma once
// Runs plans on the streams of a device.

#include <vector>

#include "cuda/device/runtime/stream.hpp"
#include "cuda/optimizer/overlap/plan_runner.hpp"

namespace zeroproof::cuda {

/// Enqueues the operations in the order of the plan: the compute stream is the current one of the caller, the comm
/// stream is this object's. An operation's body enqueues on what is then the current stream; events are the plan's, and
/// nothing waits on the host unless a body does. Memory that `allocate` brings to life on the compute stream is there
/// for the other one after the event that the plan has between the two.
class StreamExecutor final : public PlanRunner {
 public:
  /// Returns when everything is enqueued. The current stream is then behind both. One run at a time.
  /// Errors: PlanRunner's; what bodies throw, after the current stream was put behind the other one.
  void run(const StepPlan& plan, const PlanBody& body) override;

 private:
  void run_op(const PlanOp& op, const PlanBody& body, device::Stream& compute);

  device::Stream comm_;
  device::Event begun_, ended_;
  std::vector<device::Event> events_;  // [most events of any plan so far]
  std::vector<bool> recorded_;         // [events of the plan]
};

}  // namespace zeroproof::cuda
