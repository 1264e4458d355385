#pragma once
// The blocks of stored state in a plan (R25).

#include <vector>

#include "common/layout/flat_layout.hpp"
#include "verification/tools/plan/plan.hpp"

namespace zeroproof::verification {

/// Places of the tensors of a plan's TP ranks, as needed for state with scales. Plans have equal
/// parts.
class PlannedState {
 public:
  /// layout: of a TP rank; it and the settings must outlive this object.
  PlannedState(const PlanSettings& settings, const PlannedModel& model, const FlatLayout& layout);

  /// Sets the blocks of the run's present rank: those of the TP rank that has parts of the most.
  void set_blocks(PredictedStep& run) const;
  /// Sets those that ranks join, which are the same for every rank of the run.
  void set_cut_blocks(PredictedStep& run) const;

 private:
  bool cuts_no_block() const;

  const PlanSettings& settings_;
  const FlatLayout& layout_;
  std::vector<std::vector<TensorPlacement>> placements_;  // [tp], empty without tensor parallelism
};

}  // namespace zeroproof::verification
