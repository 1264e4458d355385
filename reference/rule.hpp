#pragma once
// The state of an update rule from step to step, and the update of one piece (R6).

#include <map>
#include <vector>

#include "common/contracts/lamb.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

/// The state of a rule: its slots, in the order of R6.
using RuleState = std::map<StateSlot, std::vector<float>>;

/// Buffers of [numel] full of NaN, one for each of kept_slots(hyper).
RuleState make_rule_state(const OptimizerHyper& hyper, std::int64_t numel);

/// Errors: invalid_argument, naming the buffer, if master or a buffer of the rule is not
/// [padded_numel].
void check_loaded(const FullState& state, const OptimizerHyper& hyper, std::int64_t padded_numel);

/// Adds one piece of a tensor to the norms of its trust ratio, for a rule that has one; by local
/// index.
void add_trust_norms(const OptimizerHyper& hyper, const StepScalars& scalars, const Piece& piece,
                     const std::vector<float>& grad, const std::vector<float>& master,
                     const RuleState& state, TrustNorms& norms);

/// The update of one piece of a tensor, in place, by local index. trust_ratio: of the tensor.
void update_piece(const OptimizerHyper& hyper, const StepScalars& scalars, float trust_ratio,
                  const Piece& piece, std::vector<float>& grad, std::vector<float>& master,
                  RuleState& state);

}  // namespace zeroproof::reference
