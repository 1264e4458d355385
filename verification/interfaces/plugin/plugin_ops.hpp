#pragma once
// A plug-in in place of the production step's implementations.

#include <memory>

#include "common/step/distributed_optimizer.hpp"
#include "verification/interfaces/plugin/plugin.hpp"

namespace zeroproof::verification {

/// Sets the plug-in that steps call from now on. There is one for the whole program: a table of
/// implementations holds plain functions, which cannot refer to an object.
void use_in_steps(std::shared_ptr<Plugin> plugin);

/// Ends the process of that plug-in, if there is one: nothing of it runs while reports are written.
void end_plugin_process();

/// One rank of the production optimizer, phase by phase, on the host, with the plug-in's operations
/// in place of the implementations. Errors: ErrorCode::unavailable if it lacks the update of the
/// setup's rule, config if there is no plug-in. Steps throw CandidateFailure for every failure of a
/// plug-in except wrong numbers.
std::unique_ptr<DistributedOptimizer> make_plugin_optimizer(const OptimizerSetup& setup);

/// One rank of the plug-in's whole steps (whole_step.hpp). Errors: those of make_whole_step; ErrorCode::config if there
/// is no plug-in.
std::unique_ptr<DistributedOptimizer> make_plugin_step(const OptimizerSetup& setup);

}  // namespace zeroproof::verification
