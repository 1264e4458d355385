#pragma once
// Proves that a plan has the same outcome in every timing, or says where it has not.

#include <optional>
#include <string>

#include "cuda/optimizer/overlap/step_plan.hpp"

namespace zeroproof::cuda {

/// unordered     two operations touch the same buffer, one of them writes, and neither stream order nor
///               events order them
/// deadlock      a wait that can never be satisfied: its event is recorded by nobody, or only behind the wait
///               itself
/// late_event    an event is recorded by an operation that is enqueued after the wait; on a device stream
///               such a wait is void
/// twice_recorded  an event has two meanings
/// not_alive     a buffer is used before it is allocated or after it was given back
/// alive         a buffer is allocated that is alive already
/// unwritten     the contents of a buffer are read before anything has written them
/// sealed        a gradient is written after its unit was declared ready, or after it was reduced
/// not_ready     a gradient is reduced that no `ready` has passed
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

/// The first fault of a plan, nothing if it has none. Order is what streams and events give, followed
/// transitively. Time and memory grow with what the operations name, times the logarithm of the buffers.
std::optional<PlanFinding> audit_plan(const StepPlan& plan);

/// Errors: internal, with the text of the finding.
void require_sound(const StepPlan& plan);

}  // namespace zeroproof::cuda
