#pragma once

#include <functional>
#include <memory>

#include "verification/ops/op.hpp"
#include "verification/ops/operations/update_settings.hpp"

namespace zeroproof::verification {

/// Indices of an update's operands in the operation; -1 for state that the rule does not have.
struct UpdateOperands {
  int grad = 0;
  int master = 1;
  int exp_avg = -1;
  int exp_avg_sq = -1;
  int max_exp_avg_sq = -1;
  int momentum_buffer = -1;
};

/// [Bound:foreign] for a call of an update. `pristine` has its inputs, and must stay valid.
std::unique_ptr<CallBounds> update_call_bounds(const UpdateSettings& settings,
                                               const UpdateOperands& operands,
                                               const OpCall& pristine, float trust_ratio = 1);

/// Op::bounds, in the format of the master, and Op::wrong_formulas of an elementwise update.
/// settings: of a variant.
void add_bounds(Op& op, const std::function<UpdateSettings(int variant)>& settings,
                const UpdateOperands& operands);

}  // namespace zeroproof::verification
