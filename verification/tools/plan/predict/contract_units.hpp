#pragma once
// Units of the contract's layout by formula: the result of set_units, which lists every rank's part
// of every bucket.

#include <vector>

#include "verification/tools/plan/predict/predicted_step.hpp"

namespace zeroproof {

/// Sets units, each visited once and in order, for a run of the contract's layout that keeps no
/// tensor whole. The time depends on the number of tensors, not on buckets and ranks. Call after
/// set_contract_buckets; shape.rank must be set.
///
/// Shapes   units: neighbours, together everything; each begins where a tensor does.
void set_contract_units(PredictedStep& shape, const FlatLayout& layout,
                        const std::vector<FlatRange>& units, std::int64_t bucket_numel);

}  // namespace zeroproof
