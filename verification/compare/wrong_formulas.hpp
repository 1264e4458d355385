#pragma once
// Wrong formulas that programs have used for an update, as explanations of wrong results.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof::verification {

/// The state of one tensor; buffers that the rule does not have are empty.
struct UpdateState {
  Span<const float> master, exp_avg, exp_avg_sq, max_exp_avg_sq, momentum_buffer;
};

/// One update of one tensor. before.momentum_buffer may be empty in the first step.
struct UpdateResults {
  Span<const float> grad;
  UpdateState before, after;
  Span<const double> grad_error = {};  ///< how far the gradient may be from `grad`; empty: 0
};

/// Settings of an update. Betas are fp64: libraries differ in where they round them.
struct UpdateSetup {
  OptimizerHyper hyper;
  double beta1 = 0.9, beta2 = 0.999;
  std::int64_t t = 1;  ///< the step that is applied, from 1
};

/// The wrong formulas whose results are these, as the end of a sentence: "eps were inside the
/// square root". Each gives every element of every tensor within twice the bound of any legal order
/// ([Bound:foreign], taken for that formula); elements outside the bound's conditions are left out.
/// Nothing if fewer than three results differ from the right formula, if none of them by more than
/// twice its bound, and for lamb.
std::optional<std::vector<std::string>> wrong_formulas(const UpdateSetup& setup,
                                                       Span<const UpdateResults> tensors);

/// The largest error of a result divided by its bound over all legal orders; above 1: in no legal
/// order. Results outside the bound's conditions are judged by class; nothing if these are more than
/// 1 % and none is wrong. Not for lamb.
std::optional<double> share_of_bound(const UpdateSetup& setup, Span<const UpdateResults> tensors);

/// "as if eps were inside the square root, or as if t were one less"; "" for none.
std::string as_if(const std::vector<std::string>& formulas);

}  // namespace zeroproof::verification
