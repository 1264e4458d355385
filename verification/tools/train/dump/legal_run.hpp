#pragma once
// A training on recorded gradients in every legal order of its operations: how far its numbers may be from exact
// arithmetic after each step ([Bound:steps]).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference/dense_optimizer.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/compare/bounds/update_bounds.hpp"
#include "verification/tools/train/dump/dump_plan.hpp"

namespace zeroproof::verification {

/// Numbers of a step that the judged program reported, and that it went on with.
struct ReportedScalars {
  std::vector<double> grad_norm;  ///< [clip groups]; empty: not reported
  std::vector<float> clip_coef;   ///< the same
};

class LegalRun {
 public:
  using Value = BoundedValue;

  /// decimal_betas: those of the settings as programs in fp64 have them, before rounding to fp32.
  /// Errors (ErrorCode::config): settings without a bound over several steps, or gradients of a model, which depend on
  /// the parameters.
  LegalRun(const Experiment& experiment, const FullState& start, bool decimal_betas);

  /// The next step, on the gradients of `number`. last: the same step of the undistributed optimizer, for its integers
  /// (loss scale, overflow). t: applied steps after it.
  void step(std::int64_t number, const reference::DenseStep& last, std::int64_t t,
            const ReportedScalars& reported = {});

  /// Whether a bound applies to a buffer; the others have one result in every order.
  static bool has_bound(const DumpBuffer& buffer);

  /// Element i of a tensor of a parameter, or of the one tensor of the step, after the last step.
  ElementBound bound_of(const DumpBuffer& buffer, std::int64_t parameter, std::int64_t i) const;

  /// Of the last step: the norm of a clip group, the reported one if it is legal, and the gradient before and after
  /// the clip.
  const Value& used_norm(int group) const { return used_norms_[static_cast<std::size_t>(group)]; }
  const Value& mean(std::int64_t flat) const { return means_[static_cast<std::size_t>(flat)]; }
  const Value& grad(std::int64_t flat) const { return grads_[static_cast<std::size_t>(flat)]; }
  bool skipped() const { return skipped_; }
  double beta1() const { return beta1_; }
  double beta2() const { return beta2_; }

 private:
  void sum_gradients(std::int64_t number, int log2_loss_scale);
  void take_norms(const ReportedScalars& reported);
  void clip();
  void update(std::int64_t t);

  const Experiment& experiment_;
  const OptimizerSetup setup_;
  double beta1_, beta2_;
  std::vector<BoundedState> state_;             // [padded_numel]
  std::vector<Value> sums_, means_, grads_;     // [padded_numel]
  std::vector<Value> norms_, coefs_;            // [clip groups]
  std::vector<Value> used_norms_, used_coefs_;  // reported ones, if they are legal
  bool skipped_ = false;
};

}  // namespace zeroproof::verification
