// Loss scaling and skipping as they were wrong in public: phase unscale written anew.

#include <algorithm>

#include "cuda/zero/production_optimizer.hpp"
#include "verification/faults/planted/ground.hpp"

namespace zeroproof::verification {
namespace {

using cuda::ProductionOptimizer;

class WrongUnscale : public ProductionOptimizer {
 public:
  explicit WrongUnscale(const Ground& ground)
      : ProductionOptimizer(ground.setup, ground.space, ground.fused, ground.ops) {}
};

/// The hysteresis counter only ever goes down.
class HysteresisNotRefilled final : public WrongUnscale {
  using WrongUnscale::WrongUnscale;
  void unscale() override {
    const auto left = scaler_.hysteresis_left;
    ProductionOptimizer::unscale();
    scaler_.hysteresis_left = std::min(scaler_.hysteresis_left, left);
  }
};

/// The step is counted before anybody asks whether it takes place.
class CountedOnSkip final : public WrongUnscale {
  using WrongUnscale::WrongUnscale;
  void unscale() override {
    ProductionOptimizer::unscale();
    if (found_inf_ != 0) ++*static_cast<std::uint64_t*>(steps_.applied_steps_view().data);
  }
};

/// What the step before left is reported again.
class SkipKeepsNorm final : public WrongUnscale {
  using WrongUnscale::WrongUnscale;
  void unscale() override {
    const double norm = grad_norm_;
    const float coef = clip_coef_;
    ProductionOptimizer::unscale();
    if (found_inf_ == 0) return;
    grad_norm_ = norm;
    clip_coef_ = coef;
  }
};

/// The flag is set and nobody reads it.
class SkipIgnored final : public WrongUnscale {
 public:
  using WrongUnscale::WrongUnscale;
  bool skipped() const override { return false; }
};

}  // namespace

std::unique_ptr<DistributedOptimizer> wrong_unscale(std::string_view fault, const Ground& ground) {
  if (fault == "hysteresis-not-refilled") return std::make_unique<HysteresisNotRefilled>(ground);
  if (fault == "counter-advances-on-skip") return std::make_unique<CountedOnSkip>(ground);
  if (fault == "skip-keeps-norm") return std::make_unique<SkipKeepsNorm>(ground);
  if (fault == "skip-ignored") return std::make_unique<SkipIgnored>(ground);
  return nullptr;
}

}  // namespace zeroproof::verification
