#include "cuda/optimizer/overlap/plan_events.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

namespace zeroproof::cuda {
namespace {

/// The latest operations of each stream on one buffer; -1: none.
struct LastUse {
  std::array<int, num_plan_streams> write{-1, -1};
  std::array<int, num_plan_streams> any{-1, -1};
};

}  // namespace

void place_events(StepPlan& plan) {
  std::vector<int> waits_for(plan.ops.size(), -1);  // [op] the operation whose event it waits for
  std::map<PlanBuffer, LastUse> last;
  std::array<int, num_plan_streams> seen{
      -1, -1};  // [stream] latest operation of the other one that it has waited for
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const PlanOp& op = plan.ops[i];
    const auto stream = static_cast<std::size_t>(op.stream);
    const std::size_t other = 1 - stream;
    int& needed = waits_for[i];
    for (const PlanBuffer& buffer : op.reads) needed = std::max(needed, last[buffer].write[other]);
    for (const PlanBuffer& buffer : op.writes) needed = std::max(needed, last[buffer].any[other]);
    if (needed > seen[stream]) {
      seen[stream] = needed;
    } else {
      needed = -1;
    }
    for (const PlanBuffer& buffer : op.reads) last[buffer].any[stream] = static_cast<int>(i);
    for (const PlanBuffer& buffer : op.writes) {
      last[buffer].any[stream] = last[buffer].write[stream] = static_cast<int>(i);
    }
  }
  for (const int source : waits_for) {
    if (source >= 0) plan.ops[source].records = 0;
  }
  for (PlanOp& op : plan.ops) {  // events are numbered in the order in which they are recorded
    if (op.records == 0) op.records = plan.num_events++;
  }
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    if (waits_for[i] < 0) continue;
    plan.ops[i].waits.push_back(plan.ops[waits_for[i]].records);
  }
}

}  // namespace zeroproof::cuda
