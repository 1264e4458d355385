#include <array>

#include "verification/faults/catalogue.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::array<Fault, 23> device = {{
    {"sums-not-cleared", FaultKind::device, "replay", Phase::norm,
     "the sums of squares of a step start from those of the step before", ""},
    {"flag-not-cleared", FaultKind::device, "replay", Phase::unscale,
     "a replayed step starts with the overflow flag of the step before", ""},
    {"t-frozen-at-capture", FaultKind::device, "replay", Phase::prepare,
     "a graph replays the step number of its capture", ""},
    {"lr-frozen-at-capture", FaultKind::device, "replay", Phase::prepare,
     "a graph replays the learning rate and decay of its capture", ""},
    {"idle-bits-frozen-at-capture", FaultKind::device, "replay", Phase::update,
     "a graph replays which tensors had a gradient at its capture", ""},
    {"replayed-over-freed-table", FaultKind::device, "replay", Phase::prepare,
     "a graph reads the schedule where it was before it moved", ""},
    {"flags-added-up", FaultKind::device, "scaling", Phase::unscale,
     "a step is skipped where the sum of the ranks' flags is 1", ""},
    {"update-ignores-skip", FaultKind::device, "scaling", Phase::update,
     "the update of a skipped step takes place", ""},
    {"count-behind-after-skip", FaultKind::device, "step count", Phase::update,
     "the step after a skipped one is not counted", ""},
    {"schedule-row-of-enqueued", FaultKind::device, "step count", Phase::prepare,
     "the schedule is read by the number of steps enqueued, not applied", ""},
    {"resume-keeps-schedule-table", FaultKind::device, "checkpoint", Phase::prepare,
     "after loading the schedule table begins at the first step of the run", ""},
    {"schedule-table-filled-once", FaultKind::device, "step count", Phase::prepare,
     "steps beyond the rows of the schedule table read its first rows again", ""},
    {"clip-before-integers", FaultKind::device, "clipping", Phase::clip,
     "the clip coefficient is made of a rank's own sums", ""},
    {"update-reads-first-group", FaultKind::device, "param-group", Phase::update,
     "the update takes the scalars of the first param group for all tensors", ""},
    {"update-reads-first-clip-group", FaultKind::device, "clipping", Phase::update,
     "the update takes the coefficient of the first clip group for all tensors", ""},
    {"integers-not-waited-for", FaultKind::device, "streams", Phase::norm,
     "the decision does not wait for the stream that transfers the ranks' integers", ""},
    {"grad-freed-before-reduced", FaultKind::device, "streams", Phase::reduce,
     "a gradient is freed without waiting for the stream that reduces it", ""},
    {"forward-before-gather", FaultKind::device, "streams", Phase::reduce,
     "a layer does not wait for the stream that gathers its parameters", ""},
    {"gather-before-update", FaultKind::device, "streams", Phase::gather,
     "the stream that gathers does not wait for the update", ""},
    {"gather-not-waited-for", FaultKind::device, "streams", Phase::gather,
     "no stream waits for the stream that gathers", ""},
    {"status-read-early", FaultKind::device, "streams", Phase::unscale,
     "the host reads the status of a step before its copy has arrived", ""},
    {"offload-grad-before-copied", FaultKind::device, "offload sync", Phase::update,
     "the host updates offloaded state before its gradient was copied to the host", ""},
    {"staging-reused", FaultKind::device, "streams", Phase::reduce,
     "a micro-batch gradient is written into pinned memory that is still being copied from", ""},
}};

}  // namespace

Span<const Fault> device_faults() { return device; }

}  // namespace zeroproof::verification
