#pragma once
// An L-BFGS case: a function, settings, and the branches of R21 that it must take.

#include <string_view>
#include <vector>

#include "common/contracts/lbfgs.hpp"

namespace zeroproof::verification {

/// Planted disturbances of an evaluation.
enum class Disturbance : std::uint8_t {
  infinite_loss,
  nan_gradient,      ///< in the last element of the last tensor: one rank alone has it
  higher_loss,       ///< by 1e6: no trial of a search is accepted
  steeper_gradient,  ///< 4 times g: the curvature of the move that ends there is negative
};

/// step, evaluation: counted from 1; evaluations are counted per step.
struct DisturbedEvaluation {
  std::int64_t step = 1;
  std::int64_t evaluation = 1;
  Disturbance kind = Disturbance::infinite_loss;
};

struct LbfgsRecipe {
  std::string_view workload;  ///< "byte_gpt_tiny" or "rosenbrock"
  std::string_view name;      ///< "armijo"
  std::string_view summary;
  LbfgsHyper hyper;
  std::vector<LbfgsEnd> ends;  ///< required end of every step
  std::vector<DisturbedEvaluation> disturbed;
  std::int64_t skipped = 0;  ///< required number of skipped pairs
  bool evicts = false;       ///< pairs must be removed because the history is full

  std::int64_t steps() const { return static_cast<std::int64_t>(ends.size()); }

  /// The state is saved after this step, and a new optimizer resumes from it.
  std::int64_t resumed_after() const { return steps() - 1; }
};

const std::vector<LbfgsRecipe>& lbfgs_recipes();

std::string_view name(LbfgsEnd end);

}  // namespace zeroproof::verification
