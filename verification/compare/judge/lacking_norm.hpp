#pragma once

#include <string>

#include "common/contracts/step_scalars.hpp"
#include "reference/dense_optimizer.hpp"
#include "verification/cases/case_layout.hpp"

namespace zeroproof::verification {

/// What a wrong norm is made of: of the first clip group, limbs [groups][23, u64], that differs. ", it lacks
/// block0.mlp.up.weight, whose norm is 0.0731" where its limbs are those of the undistributed optimizer without one
/// tensor, one rank's part of a tensor or everything one rank has; likewise what is counted twice, and what is the only
/// thing counted. "" if the difference is none of these.
std::string describe_lacking(const CaseLayout& layout, int world_size, NormForm form,
                             const ClipGroups& groups, const reference::DenseOptimizer& truth,
                             const TensorView& limbs);

}  // namespace zeroproof::verification
