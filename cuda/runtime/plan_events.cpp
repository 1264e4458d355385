#include "cuda/runtime/plan_events.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace zeroproof::cuda {
namespace {

/// The latest operations of each stream on one buffer; -1: none.
struct LastUse {
  std::array<int, num_plan_streams> write{-1, -1};
  std::array<int, num_plan_streams> any{-1, -1};
};

}  // namespace

void place_events(StepPlan& plan) {
  std::map<PlanBuffer, LastUse> last;
  std::array<int, num_plan_streams> seen{
      -1, -1};  // [stream] latest operation of the other one that it has waited for
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    PlanOp& op = plan.ops[i];
    const auto stream = static_cast<std::size_t>(op.stream);
    const std::size_t other = 1 - stream;
    int needed = -1;
    for (const PlanBuffer& buffer : op.reads) needed = std::max(needed, last[buffer].write[other]);
    for (const PlanBuffer& buffer : op.writes) needed = std::max(needed, last[buffer].any[other]);
    if (needed > seen[stream]) {
      PlanOp& source = plan.ops[static_cast<std::size_t>(needed)];
      if (source.records < 0) source.records = plan.num_events++;
      op.waits.push_back(source.records);
      seen[stream] = needed;
    }
    for (const PlanBuffer& buffer : op.reads) last[buffer].any[stream] = static_cast<int>(i);
    for (const PlanBuffer& buffer : op.writes) {
      last[buffer].any[stream] = last[buffer].write[stream] = static_cast<int>(i);
    }
  }
}

}  // namespace zeroproof::cuda
