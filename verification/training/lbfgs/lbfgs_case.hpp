#pragma once
// Ids of L-BFGS cases: "lbfgs/byte_gpt_tiny/armijo/threads:3/contract" is workload, recipe, world, layout.

#include <functional>
#include <string>
#include <vector>

#include "common/layout/peer_layouts.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/result.hpp"
#include "verification/training/lbfgs/trajectory.hpp"

namespace zeroproof::verification {

struct LbfgsCaseSpec {
  const LbfgsRecipe* recipe = nullptr;
  WorldSpec world;  ///< self or threads:N
  LayoutKind layout = LayoutKind::contract;

  std::string id() const;
};

/// The cases a pattern selects among the usual ones: every recipe on one rank with the contract's layout, and on two
/// and three ranks with three layouts. A complete id selects its case anywhere. Errors (ErrorCode::config): a complete
/// id with a part that does not exist, or a world of processes.
std::vector<LbfgsCaseSpec> lbfgs_cases(const std::string& pattern);

struct LbfgsRunOptions {
  RunConfig
      config;  ///< of byte_gpt_tiny: seed, text, micro-batches, model, time limit of the ranks
  std::string fault;  ///< identifier of a planted fault for production
  std::function<std::string(const std::string& id)> replay_line;
  std::function<void(double fraction, const std::string& what)> progress;
};

/// Runs the cases; those of one recipe share the true trajectory. Errors: ErrorCode::config if the
/// settings cannot be used.
std::vector<Result> run_lbfgs_cases(const std::vector<LbfgsCaseSpec>& cases,
                                    const LbfgsRunOptions& options);

/// The function of a recipe. The recipe outlives it.
std::unique_ptr<LbfgsProblem> make_problem(const LbfgsRecipe& recipe, const RunConfig& config);

/// One case: the reference over the ranks, then the candidate, both against the true trajectory.
/// pass, fail with the first difference, mistrusted if the trajectory proves little; error or hung
/// if a rank could not continue before a difference.
Result judge_lbfgs(const LbfgsCaseSpec& spec, const LbfgsProblem& problem,
                   const LbfgsTrajectory& truth, const LbfgsImplementation& candidate,
                   const LbfgsRunOptions& options);

}  // namespace zeroproof::verification
