#pragma once
// Values that legal orders of one element of an update can produce from any inputs, also infinite
// ones and NaNs (papers/bounds.md, [Bound:classes]): for elements to which no bound applies.

#include <cstdint>

#include "common/contracts/step_scalars.hpp"
#include "verification/compare/bounds/result_range.hpp"

namespace zeroproof::verification {

struct ElementState;

/// Ranges of the results; state that the rule does not have keeps its range of everything.
struct UpdateRanges {
  static constexpr bounds::ResultRange everything = {-bounds::infinite, bounds::infinite, true};
  bounds::ResultRange master = everything, exp_avg = everything, exp_avg_sq = everything,
                      max_exp_avg_sq = everything, momentum_buffer = everything;
};

/// Arguments as of UpdateBounds, which lists the legal forms and checks the ranges of R5.
class UpdateClasses {
 public:
  UpdateClasses(const OptimizerHyper& hyper, std::int64_t t, float trust_ratio);

  /// As of UpdateBounds.
  void set_powers(float power1, float power2);

  UpdateRanges operator()(float grad, const ElementState& before) const;

 private:
  using Range = bounds::ResultRange;
  using Real = bounds::Real;

  void set_corrections(Real correction1, Real correction2);
  Range gradient(float grad, float master) const;
  static Range average(Real weight, Real new_weight, const Range& old, const Range& grad);
  void adam(const Range& grad, const ElementState& before, UpdateRanges& after) const;
  void lion(const Range& grad, const ElementState& before, UpdateRanges& after) const;
  void sgd(const Range& grad, const ElementState& before, UpdateRanges& after) const;
  /// master after the step `a`, which is the rate times `direction`.
  Range decayed(float master, const Range& a, const Range& direction) const;

  OptimizerHyper hyper_;
  std::int64_t t_;
  Real beta1_, beta2_;
  // Scalars of a kernel, which it rounds.
  Range correction1_, correction2_, root_correction2_, step_size_, lr_, decay_, eps_, ratio_;
};

}  // namespace zeroproof::verification
