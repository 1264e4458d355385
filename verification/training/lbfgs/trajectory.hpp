#pragma once
// What a run of L-BFGS leaves behind: every evaluation, and after every step its report and the whole state.

#include <vector>

#include "verification/training/lbfgs/problem.hpp"

namespace zeroproof::verification {

/// One evaluation, over all ranks; padding is NaN.
struct SavedEvaluation {
  std::vector<float> point, grad;  // [padded_numel]
  double loss = 0;
};

/// The state of all ranks, put together (R21); padding is NaN.
class SavedLbfgs {
 public:
  SavedLbfgs() = default;

  /// A state in which only x is given.
  explicit SavedLbfgs(const std::vector<float>& start) : master_(start) {}

  /// Adds a rank's part; the scalars are those of the rank that comes last.
  void add(const FlatLayout& layout, const std::vector<Piece>& pieces, const LbfgsState& mine);

  /// What load_state takes; valid as long as this lives.
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

/// The reference on one rank, without a save in the middle: what every case must do too.
LbfgsTrajectory true_trajectory(const LbfgsRecipe& recipe, const LbfgsProblem& problem);

/// Why a trajectory proves little, "" if it does what its recipe is for.
std::string reason_to_mistrust(const LbfgsRecipe& recipe, const LbfgsTrajectory& trajectory);

}  // namespace zeroproof::verification
