// Wrong loss scaling and skipping from public bugs: replaced phase unscale.

#include <algorithm>

#include "common/base/error.hpp"
#include "cuda/optimizer/host/host_step.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

using cuda::HostStep;

/// The hysteresis counter only decreases.
class HysteresisNotRefilled final : public HostStep {
  using HostStep::HostStep;
  void unscale() override {
    const auto left = scaler_.hysteresis_left;
    HostStep::unscale();
    scaler_.hysteresis_left = std::min(scaler_.hysteresis_left, left);
  }
};

/// The step is counted before the decision to skip it.
class CountedOnSkip final : public HostStep {
  using HostStep::HostStep;
  void unscale() override {
    HostStep::unscale();
    if (found_inf_ != 0) ++*static_cast<std::uint64_t*>(steps_.applied_steps_view().data);
  }
};

/// The norm of the step before is reported again.
class SkipKeepsNorm final : public HostStep {
  using HostStep::HostStep;
  void unscale() override {
    const std::vector<double> norm = grad_norm_;
    const std::vector<float> coef = clip_coef_;
    HostStep::unscale();
    if (found_inf_ == 0) return;
    grad_norm_ = norm;
    clip_coef_ = coef;
  }
};

/// The flag is set but not used.
class SkipIgnored final : public HostStep {
 public:
  using HostStep::HostStep;
  bool skipped() const override { return false; }
};

/// The update takes place before the error of on_nonfinite = error is reported.
class UpdatesBeforeError final : public HostStep {
  using HostStep::HostStep;
  void unscale() override {
    try {
      HostStep::unscale();
    } catch (const Error&) {
      update();
      throw;
    }
  }
};

}  // namespace

cuda::MakeLocalStep wrong_unscale(std::string_view fault, const FaultContext& context) {
  if (fault == "hysteresis-not-refilled") return step_of<HysteresisNotRefilled>(context);
  if (fault == "counter-advances-on-skip") return step_of<CountedOnSkip>(context);
  if (fault == "skip-keeps-norm") return step_of<SkipKeepsNorm>(context);
  if (fault == "skip-ignored") return step_of<SkipIgnored>(context);
  if (fault == "updates-before-error") return step_of<UpdatesBeforeError>(context);
  return nullptr;
}

}  // namespace zeroproof::verification
