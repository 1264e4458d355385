#pragma once
// Proves that a plan has the same outcome in every timing, or reports the first fault.

#include <optional>
#include <string>

#include "cuda/optimizer/overlap/step_plan.hpp"

namespace zeroproof::cuda {

/// unordered     two operations touch the same buffer, one of them writes, and neither stream order nor
///               events order them
/// deadlock      a wait that can never be satisfied: its event is recorded by no operation, or only
///               after the wait itself
/// late_event    an event is recorded by an operation that is enqueued after the wait; on a device
///               stream such a wait has no effect
/// twice_recorded  an event is recorded by two operations
/// not_alive     a buffer is used before it is allocated or after it was freed
/// alive         a buffer is allocated that is alive already
/// unwritten     the contents of a buffer are read before anything has written them
/// sealed        a gradient is written after its unit was declared ready, or after it was reduced
/// not_ready     a gradient is reduced before its `ready`
/// leak          a buffer is still alive at the end
enum class PlanFault : std::uint8_t {
  unordered,
  deadlock,
  late_event,
  twice_recorded,
  not_alive,
  alive,
  unwritten,
  sealed,
  not_ready,
  leak
};

struct PlanFinding {
  PlanFault fault = PlanFault::unordered;
  int first = -1;   ///< operation
  int second = -1;  ///< the other operation of `unordered`; else -1
  std::string text;
};

/// The first fault of a plan, nothing if it has none. Order is derived from streams and events,
/// transitively. Time and memory grow with the number of waits and buffer uses in the plan, times
/// the logarithm of the number of buffers.
std::optional<PlanFinding> audit_plan(const StepPlan& plan);

/// Errors: internal, with the text of the finding.
void require_sound(const StepPlan& plan);

}  // namespace zeroproof::cuda
