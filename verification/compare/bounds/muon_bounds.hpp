#pragma once
// Bounds on the elementwise operations of muon (R28) for every legal order ([Bound:foreign]).

#include "verification/compare/bounds/update_bounds.hpp"

namespace zeroproof::verification {

/// Units    grad, orthogonal, step_size: taken as exact. The average, its increments, the decay and the parameter have
///          the forms that [Bound:foreign] lists.
/// Errors   invalid_argument as step_scalars.
class MuonBounds {
 public:
  explicit MuonBounds(const OptimizerHyper& hyper);

  struct Momentum {
    ElementBound exp_avg, direction;
  };
  /// Of MuonMomentumFn.
  Momentum momentum(float grad, float exp_avg) const;

  /// The master of MuonUpdateFn.
  ElementBound master(float step_size, float orthogonal, float master) const;

 private:
  OptimizerHyper hyper_;
  UpdateBounds average_;  // of sgd, whose momentum buffer is this average
  UpdateBounds decay_;
};

}  // namespace zeroproof::verification
