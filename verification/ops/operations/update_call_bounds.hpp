#pragma once

#include <memory>

#include "verification/ops/call_bounds.hpp"
#include "verification/ops/op_call.hpp"
#include "verification/ops/operations/update_settings.hpp"

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

/// [Bound:foreign] for a call of an update. `pristine` is its inputs, and stays where it is.
std::unique_ptr<CallBounds> update_call_bounds(const UpdateSettings& settings,
                                               const UpdateOperands& operands,
                                               const OpCall& pristine);

}  // namespace zeroproof::verification
