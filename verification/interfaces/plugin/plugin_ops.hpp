#pragma once
// A plug-in in place of the production step's own implementations.

#include <memory>

#include "common/step/distributed_optimizer.hpp"
#include "verification/interfaces/plugin/plugin.hpp"

namespace zeroproof::verification {

/// From now on it is this one that steps call. There is one for the whole program: a table of implementations holds functions,
/// and these know of nothing else.
void use_in_steps(std::shared_ptr<Plugin> plugin);

/// One rank of the production optimizer, phase by phase, on the host, with every operation the plug-in has in place of
/// the implementation. Errors: ErrorCode::unavailable if it lacks the update of the setup's rule, config if there is no plug-in.
/// Steps throw CandidateFailure for what a plug-in does wrong but the numbers.
std::unique_ptr<DistributedOptimizer> make_plugin_optimizer(const OptimizerSetup& setup);

/// One rank of the plug-in's whole steps (whole_step.hpp). Errors: those of make_whole_step; ErrorCode::config if there
/// is no plug-in.
std::unique_ptr<DistributedOptimizer> make_plugin_step(const OptimizerSetup& setup);

}  // namespace zeroproof::verification
