#pragma once

#include <string>

#include "common/contracts/step_scalars.hpp"
#include "reference/dense_optimizer.hpp"
#include "verification/cases/case_layout.hpp"

namespace zeroproof::verification {

/// Explains a wrong norm, for the first clip group whose limbs [groups][23, u64] differ. ", it
/// lacks block0.mlp.up.weight, whose norm is 0.0731" where its limbs are those of the undistributed
/// optimizer without one tensor, one rank's part of a tensor or all elements of one rank; likewise
/// for a part counted twice, and for the only part counted. "" if none of these fits.
std::string describe_lacking(const CaseLayout& layout, int world_size, NormForm form,
                             const ClipGroups& groups, const reference::DenseOptimizer& truth,
                             const TensorView& limbs);

}  // namespace zeroproof::verification
