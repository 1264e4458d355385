#pragma once
// The run that a plan is for, as one of its ranks sees it.

#include <cstdint>
#include <vector>

#include "verification/tools/plan/plan.hpp"

namespace zeroproof::verification {

/// The run of a stage, as its data rank 0 sees it: in every stage leaves come from a model that runs layer by layer.
/// Equal buckets are one entry of its buckets: there are at most two, five for every unit in stages 2 and 3 and three
/// more under tensor parallelism, or neighbours with and without whole tensors where one rank owns a bucket alone.
PredictedStep planned_run(const PlanSettings& settings, const PlannedModel& model,
                          const FlatLayout& layout, const std::vector<FlatRange>& units, int stage);

/// Makes the run that of another data rank, but for what the rank owns of units.
void move_to(PredictedStep& run, std::int64_t data_rank);

/// What the rank that a run was moved to offloads, in one param group.
void set_offload(PredictedStep& run, const FlatLayout& layout, const PlanSettings& settings);

}  // namespace zeroproof::verification
