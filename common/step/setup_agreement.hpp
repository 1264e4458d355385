#pragma once
// Check that all ranks of a step have the same settings, before their parameters can diverge.

#include "common/contracts/lbfgs.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof {

/// Compares settings, and the counters of a state that is being loaded, over all ranks of the step (R5): every member
/// of OptimizerSetup except exec and guards; layout, shard map and placement among the ranks that are the same TP rank.
/// Collective over tp, comm and replicas.
///
/// Errors   comm, with the same text on every rank, naming the first setting that differs and the ranks on which it
///          does. Ranks count as data rank * TP ranks + TP rank.
void require_same_setup(const OptimizerSetup& setup, const FullState& state);

/// The same for L-BFGS (R21), whose ranks are those of comm: every setting but exec, and the scalars of the state.
void require_same_setup(const LbfgsSetup& setup, const LbfgsState& state);

}  // namespace zeroproof
