#pragma once
// Bounds on the distance of one element of a correct fp32 update from exact arithmetic, for every
// legal order of computation (papers/bounds.md, [Bound:foreign]): for kernels without the
// contract's bits.

#include <cstdint>

#include "common/contracts/step_scalars.hpp"
#include "verification/compare/bounds/element_bound.hpp"
#include "verification/compare/bounds/update_classes.hpp"

namespace zeroproof::verification {

/// State of one element; members that the rule does not have are not read.
struct ElementState {
  float master = 0;
  float exp_avg = 0;
  float exp_avg_sq = 0;
  float max_exp_avg_sq = 0;
  float momentum_buffer = 0;
};

/// A value in exact arithmetic, and how far an input or a result may be from it.
struct BoundedValue {
  long double exact = 0, error = 0;
};

/// State of one element after steps in any legal order ([Bound:steps]); members as in ElementState.
struct BoundedState {
  BoundedValue master, exp_avg, exp_avg_sq, max_exp_avg_sq, momentum_buffer;
};

/// A state without errors.
inline BoundedState exactly(const ElementState& state) {
  return {{state.master, 0},
          {state.exp_avg, 0},
          {state.exp_avg_sq, 0},
          {state.max_exp_avg_sq, 0},
          {state.momentum_buffer, 0}};
}

struct UpdateBound {
  ElementBound master, exp_avg, exp_avg_sq, max_exp_avg_sq, momentum_buffer;
};

/// Units    grad: unscaled and clipped, taken as exact. t: the step that is applied, from 1.
///          trust_ratio: of the element's tensor, taken as exact; 1 for rules that have none.
/// Errors   invalid_argument as step_scalars, for settings outside of R5's ranges.
/// Source   [Bound:foreign]: any order and contraction it lists, scalars rounded once from what `hyper` says.
///          Results outside its conditions have the classes of [Bound:classes].
class UpdateBounds {
 public:
  UpdateBounds(const OptimizerHyper& hyper, std::int64_t t, float trust_ratio = 1);

  UpdateBound operator()(float grad, const ElementState& before) const;
  /// Of inputs with errors of their own ([Bound:steps]). Results outside the conditions are not judged, and have every
  /// class.
  UpdateBound operator()(const BoundedValue& grad, const BoundedState& before) const;

  /// For programs that compute with fp64 betas: those in `hyper` were rounded to fp32.
  void set_betas(double beta1, double beta2);
  /// For programs that compute beta1^t and beta2^t, and the scalars of them, in fp32 ([Bound:powers]).
  void set_powers(float power1, float power2);
  /// For a parameter that is its own master (R25): results of master are cast to bf16.
  void cast_master_to_bf16() { bf16_master_ = true; }
  /// For programs whose weights of the gradient are not 1 - beta1 and 1 - beta2.
  void set_new_weights(double of_average, double of_square);

  using Real = long double;
  using Value = BoundedValue;

  /// master of adamw, adam and lamb, from new moments of known error; with amsgrad `square` is the
  /// maximum.
  ElementBound master(const Value& before, const Value& average, const Value& square) const;
  /// master of a rule with decoupled decay, from a step of known error.
  ElementBound decoupled(const Value& before, const Value& step) const;

 private:
  Value gradient(const Value& grad, const BoundedState& before) const;
  static Value average(Real weight, Real new_weight, const Value& old, const Value& grad);
  Value square(const Value& old, const Value& grad) const;
  Value adaptive_step(const Value& average, const Value& square, bool& valid) const;
  Value decayed(const Value& master, const Value& step) const;
  /// A part of the update times the trust ratio.
  Value scaled(const Value& part) const;
  Value moved(const Value& master, const Value& direction) const;
  bool no_overflow(const Value& grad, const Value& old) const;
  void adam(const Value& grad, const BoundedState& before, UpdateBound& bound) const;
  void lion(const Value& grad, const BoundedState& before, UpdateBound& bound) const;
  void sgd(const Value& grad, const BoundedState& before, UpdateBound& bound) const;

  OptimizerHyper hyper_;
  std::int64_t t_;
  Real beta1_, beta2_, new1_, new2_, correction1_, root_correction2_, step_size_, lr_, decay_,
      ratio_;
  int ratio_roundings_;  ///< of the product with the ratio: 1, or 0 for rules without one
  int root_roundings_ = 4, step_roundings_ = 5;  ///< of sqrt(v) / root_correction2, and of the step
  bool bf16_master_ = false;
  UpdateClasses classes_;
};

}  // namespace zeroproof::verification
