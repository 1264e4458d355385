#pragma once
// Production L-BFGS with one fault in one step on one rank.

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "verification/training/lbfgs/rosenbrock.hpp"

namespace zeroproof::tests {

struct Wrong {
  enum class Value : std::uint8_t { next, nan, shorter };
  std::string buffer;  ///< as a case names it, or "one more", "throws"
  std::int64_t step = 1;
  int rank = 0;
  Value value = Value::next;
  bool on_load = false;  ///< only after a load of the state of that step
};

class WrongLbfgs final : public LbfgsOptimizer {
 public:
  WrongLbfgs(const LbfgsSetup& setup, Wrong wrong)
      : wrong_(std::move(wrong)),
        rank_(setup.comm->rank()),
        inner_(verification::production_lbfgs().make(setup)) {}

  void load_state(const LbfgsState& full) override {
    inner_->load_state(full);
    steps_ = full.evaluations == 0 ? 0 : 2;  // rosenbrock/none is saved after its second step
    loaded_ = true;
  }

  LbfgsState state() const override {
    LbfgsState state = inner_->state();
    if (!now() || wrong_.on_load != loaded_) return state;
    vectors_.clear();
    if (wrong_.buffer == "master") replace(state.master);
    if (wrong_.buffer == "grad_before") replace(state.grad_before);
    if (wrong_.buffer == "move") replace(state.move);
    for (std::size_t i = 0; i < state.rho.size(); ++i) {
      const std::string index = "[" + std::to_string(i) + "]";
      if (wrong_.buffer == "steps" + index) replace(state.steps[i]);
      if (wrong_.buffer == "grad_changes" + index) replace(state.grad_changes[i]);
      if (wrong_.buffer == "rho" + index) change(state.rho[i]);
    }
    if (wrong_.buffer == "h") change(state.h);
    if (wrong_.buffer == "pending") state.pending = !state.pending;
    if (wrong_.buffer == "started") state.started = !state.started;
    if (wrong_.buffer == "iterations") ++state.iterations;
    if (wrong_.buffer == "evaluations") ++state.evaluations;
    if (wrong_.buffer == "num_pairs") {
      state.rho.pop_back();
      state.steps.pop_back();
      state.grad_changes.pop_back();
    }
    return state;
  }

  LbfgsReport step(Closure& closure) override {
    ++steps_;
    loaded_ = false;
    if (now() && wrong_.buffer == "throws") {
      fail(ErrorCode::internal, "a planted error", "it is one", "leave it");
    }
    Elsewhere elsewhere(closure, *this);
    LbfgsReport report = inner_->step(elsewhere);
    if (steps_ == wrong_.step && wrong_.buffer == "one more") {
      const LbfgsState here = inner_->state();
      std::vector<float> grad(here.master.size());
      closure.evaluate(here.master, grad);
    }
    if (!now()) return report;
    if (wrong_.buffer == "report.gtd") change(report.gtd);
    if (wrong_.buffer == "report.loss") change(report.loss);
    if (wrong_.buffer == "report.first_loss") change(report.first_loss);
    if (wrong_.buffer == "report.max_abs_grad") change(report.max_abs_grad);
    if (wrong_.buffer == "report.step_length") change(report.step_length);
    if (wrong_.buffer == "report.end") report.end = LbfgsEnd::loss;
    if (wrong_.buffer == "report.iterations") ++report.iterations;
    if (wrong_.buffer == "report.evaluations") ++report.evaluations;
    if (wrong_.buffer == "report.pairs_stored") ++report.pairs_stored;
    if (wrong_.buffer == "report.pairs_skipped") ++report.pairs_skipped;
    return report;
  }

 private:
  /// Evaluates the gradient at a point whose first element is the next float.
  class Elsewhere final : public Closure {
   public:
    Elsewhere(Closure& inner, WrongLbfgs& owner) : inner_(inner), owner_(owner) {}

   private:
    double compute(Span<const float> master_shard, Span<float> grad_shard) override {
      const std::string here = "point[" + std::to_string(evaluations() - 1) + "]";
      std::vector<float> point(master_shard.begin(), master_shard.end());
      const bool wrong = owner_.now() && owner_.wrong_.buffer.rfind(here, 0) == 0;
      if (wrong) point.front() = std::nextafter(point.front(), 1e30F);
      const double loss = inner_.evaluate(point, grad_shard);
      if (wrong && owner_.wrong_.buffer != here) {
        fail(ErrorCode::internal, "a planted error", "it is one", "leave it");
      }
      return loss;
    }

    Closure& inner_;
    WrongLbfgs& owner_;
  };

  bool now() const { return rank_ == wrong_.rank && steps_ == wrong_.step; }

  void change(double& value) const {
    value = wrong_.value == Wrong::Value::nan ? std::numeric_limits<double>::quiet_NaN()
                                              : std::nextafter(value, 1e300);
  }

  /// Another value at element 2.
  void replace(Span<const float>& values) const {
    std::vector<float>& copy = vectors_.emplace_back(values.begin(), values.end());
    if (wrong_.value == Wrong::Value::shorter) copy.pop_back();
    copy[2] = wrong_.value == Wrong::Value::nan ? std::numeric_limits<float>::quiet_NaN()
                                                : std::nextafter(copy[2], 1e30F);
    values = copy;
  }

  Wrong wrong_;
  int rank_;
  std::unique_ptr<LbfgsOptimizer> inner_;
  std::int64_t steps_ = 0;
  bool loaded_ = false;
  mutable std::vector<std::vector<float>> vectors_;
};

/// The fault of the implementation that wrong_lbfgs returned last; a factory has no parameter for
/// it.
inline Wrong& planted_wrong() {
  static Wrong wrong;
  return wrong;
}

inline verification::LbfgsImplementation wrong_lbfgs(const Wrong& wrong) {
  planted_wrong() = wrong;
  verification::LbfgsImplementation implementation = verification::production_lbfgs();
  implementation.make = [](const LbfgsSetup& setup) -> std::unique_ptr<LbfgsOptimizer> {
    return std::make_unique<WrongLbfgs>(setup, planted_wrong());
  };
  return implementation;
}

}  // namespace zeroproof::tests
