#pragma once
// The results of an L-BFGS run: every evaluation, and after every step its report and the whole
// state.

#include <vector>

#include "verification/training/lbfgs/problem.hpp"

namespace zeroproof::verification {

/// One evaluation, over all ranks; padding is NaN.
struct SavedEvaluation {
  std::vector<float> point, grad;  // [padded_numel]
  double loss = 0;
};

/// The gathered state of all ranks (R21); padding is NaN.
class SavedLbfgs {
 public:
  SavedLbfgs() = default;

  /// A state with x only.
  explicit SavedLbfgs(const std::vector<float>& start) : master_(start) {}

  /// Adds a rank's part; the scalars are those of the rank that comes last.
  void add(const FlatLayout& layout, const std::vector<Piece>& pieces, const LbfgsState& mine);

  /// The argument of load_state; valid as long as this object.
  LbfgsState full() const;

 private:
  std::vector<float> master_, grad_before_, move_;        // [padded_numel], empty as in LbfgsState
  std::vector<std::vector<float>> steps_, grad_changes_;  // [num_pairs][padded_numel]
  LbfgsState scalars_;                                    // without its vectors
};

struct SavedStep {
  std::vector<SavedEvaluation> evaluations;
  LbfgsReport report;
  SavedLbfgs state;
};

struct LbfgsTrajectory {
  SavedLbfgs start;
  std::vector<SavedStep> steps;
};

/// The reference on one rank, without a save in the middle: the trajectory of every case.
LbfgsTrajectory true_trajectory(const LbfgsRecipe& recipe, const LbfgsProblem& problem);

/// Why a trajectory proves little, "" if it takes the branches of its recipe.
std::string reason_to_mistrust(const LbfgsRecipe& recipe, const LbfgsTrajectory& trajectory);

}  // namespace zeroproof::verification
