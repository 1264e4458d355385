#pragma once
// Runs plans on the streams of a device.

#include <vector>

#include "cuda/device/runtime/stream.hpp"
#include "cuda/optimizer/overlap/plan_runner.hpp"

namespace zeroproof::cuda {

/// Enqueues the operations in the order of the plan: the compute stream is the current one of the
/// caller, the comm stream belongs to this object. An operation's body enqueues on the current
/// stream of that moment; events are those of the plan, and the host waits only in bodies. Memory
/// from `allocate` on the compute stream may be used on the other stream after the plan's event
/// between the two.
class StreamExecutor final : public PlanRunner {
 public:
  /// Returns when all operations are enqueued. Work enqueued later on the current stream then
  /// follows both streams. One run at a time.
  /// Errors: PlanRunner's; those of bodies, after the current stream was ordered after the other
  /// one.
  void run(const StepPlan& plan, const PlanBody& body) override;

 private:
  void run_op(const PlanOp& op, const PlanBody& body, device::Stream& compute);

  device::Stream comm_;
  device::Event begun_, ended_;
  std::vector<device::Event> events_;  // [most events of any plan so far]
  std::vector<bool> recorded_;         // [events of the plan]
};

}  // namespace zeroproof::cuda
