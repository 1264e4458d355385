#pragma once

#include <string>

#include "common/contracts/step_scalars.hpp"
#include "reference/dense_optimizer.hpp"
#include "verification/case/case_layout.hpp"

namespace zeroproof::verification {

/// What a wrong global norm is made of. ", it lacks block0.mlp.up.weight, whose norm is 0.0731" where limbs [23, u64]
/// are those of the undistributed optimizer without one tensor, one rank's part of a tensor or everything one rank has;
/// likewise what is counted twice, and what is the only thing counted. "" if the difference is none of these.
std::string describe_lacking(const CaseLayout& layout, int world_size, NormForm form,
                             const reference::DenseOptimizer& truth, const TensorView& limbs);

}  // namespace zeroproof::verification
