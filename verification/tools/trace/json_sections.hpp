#pragma once
// Parts of the trace's JSON that have files of their own. Steps are indices into TracedRank::steps.

#include "common/io/json.hpp"
#include "verification/tools/trace/trace.hpp"

namespace zeroproof::verification {

/// "reductions": the integers of every rank before they were added or OR-ed over ranks, and the
/// results (R12, R14). The norm has none in stage 0, where every rank counts everything.
Json reductions_json(const StepTrace& trace, std::size_t step, Phase phase);

/// "chunks": fp64 values of the chunks that each rank counts (R12).
Json chunks_json(const StepTrace& trace, std::size_t step);

/// "messages" that production's ranks sent in a phase.
Json messages_json(const StepTrace& trace, std::size_t step, Phase phase);

/// "visits": in stage 3, the events of units on production's ranks.
Json visits_json(const StepTrace& trace, std::size_t step);

/// "events": what ranks do at the same time, in an order in which it can happen.
Json events_json(const StepTrace& trace, std::size_t step, Phase phase);

/// "memory": bytes of a class whenever they changed on a rank of production, and in which event.
Json memory_json(const StepTrace& trace, std::size_t step, Phase phase);

/// "differences": first of every buffer of production that differs from the reference's; none
/// without a fault.
Json differences_json(const StepTrace& trace);

}  // namespace zeroproof::verification
