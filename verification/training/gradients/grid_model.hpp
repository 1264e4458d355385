#pragma once
// Gradients of a workload whose micro-batches are computed by several ranks together: parts of
// gradients (R11, R18).

#include <memory>
#include <vector>

#include "verification/cases/case_layout.hpp"
#include "verification/training/gradients/grad_cache.hpp"

namespace zeroproof::verification {

class GridModel {
 public:
  /// tp, cp: this rank's groups, null for groups of one rank. Both must outlive this object. Errors
  /// (ErrorCode::config): a workload that cannot be split, or gradients that are rounded to 16
  /// bits: a part cannot be rounded before the sum of all parts.
  GridModel(const Experiment& experiment, const CaseLayout& layout, const RankCoords& place,
            Communicator* tp, Communicator* cp);

  /// This rank's parts of the gradients of its micro-batches. Collective over tp and cp. params:
  /// [local padded_numel] in the parameter dtype.
  std::unique_ptr<GradProvider> leaves(std::int64_t step,
                                       const std::vector<std::int64_t>& micro_batches,
                                       const TensorView& params, int log2_loss_scale);

 private:
  const Experiment& experiment_;
  const CaseLayout& layout_;
  RankCoords place_;
  workload::ByteGptGroups groups_;
};

}  // namespace zeroproof::verification
