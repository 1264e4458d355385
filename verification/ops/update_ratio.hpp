#pragma once

#include "verification/ops/bound_ratio.hpp"
#include "verification/ops/op_call.hpp"
#include "verification/ops/update_settings.hpp"

namespace zeroproof::verification {

/// Where an update's operands are, by their place in the operation; -1 for what the rule does not keep.
struct UpdateOperands {
  int grad = 0;
  int master = 1;
  int exp_avg = -1;
  int exp_avg_sq = -1;
  int max_exp_avg_sq = -1;
  int momentum_buffer = -1;
};

/// The results of an update against [Bound:foreign].
BoundRatio update_ratio(const UpdateSettings& settings, const UpdateOperands& operands,
                        const OpCall& pristine, const OpCall& candidate);

}  // namespace zeroproof::verification
