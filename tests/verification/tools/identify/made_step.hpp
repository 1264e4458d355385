#pragma once
// Steps of dialects' implementations, and of optimizers of no library.

#include <cmath>
#include <functional>

#include "common/base/philox.hpp"
#include "verification/tools/identify/dialect.hpp"
#include "verification/tools/identify/recorded_step.hpp"

namespace zeroproof::tests {

/// Random parameters, gradients and moments as a training has them, one tensor for each size;
/// `after` is empty.
inline verification::RecordedStep drawn_step(const verification::DialectHyper& hyper,
                                             const std::vector<std::int64_t>& sizes,
                                             std::uint64_t seed) {
  verification::RecordedStep step;
  step.hyper = hyper;
  std::uint32_t counter = 0;
  const auto uniform = [&] {  // (-1, 1)
    const PhiloxBlock words = philox4x32({counter++, 0, 0, 0xD1A1EC7U}, seed);
    return static_cast<float>(static_cast<std::int32_t>(words[0])) * 0x1p-31F;
  };
  for (const std::int64_t n : sizes) {
    verification::StepTensor t;
    t.name = std::to_string(step.tensors.size());
    for (std::int64_t i = 0; i < n; ++i) {
      const float scale = std::exp2(6 * uniform() - 8);
      t.grad.push_back(uniform() * scale);
      t.before.master.push_back(uniform() * 0.1F);
      if (hyper.rule == UpdateRule::sgd) {
        if (hyper.momentum != 0) t.before.momentum_buffer.push_back(uniform() * scale);
        continue;
      }
      t.before.exp_avg.push_back(uniform() * scale * 0.3F);
      const float second = uniform() * scale;
      t.before.exp_avg_sq.push_back(second * second * 0.2F);
      if (hyper.amsgrad)
        t.before.max_exp_avg_sq.push_back(t.before.exp_avg_sq.back() * (1 + 0.01F * uniform()));
    }
    step.tensors.push_back(std::move(t));
  }
  return step;
}

/// The result of the step by a dialect's implementation.
inline void take(verification::RecordedStep& step, const verification::Dialect& dialect) {
  for (verification::StepTensor& t : step.tensors) {
    t.after = t.before;
    if (step.is_first && step.hyper.momentum != 0) t.after.momentum_buffer.resize(t.numel());
    verification::update(dialect, step.hyper, step.is_first,
                         {t.grad, t.after.master, t.after.exp_avg, t.after.exp_avg_sq,
                          t.after.max_exp_avg_sq, t.after.momentum_buffer});
  }
}

/// All kinds of steps that distinguish dialects.
inline std::vector<verification::DialectHyper> usual_hypers() {
  verification::DialectHyper h;
  h.lr = 3e-3;
  h.t = 7;
  h.weight_decay = 0.05;
  std::vector<verification::DialectHyper> all;
  for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::adam}) {
    h.rule = rule;
    for (const double decay : {0.05, 0.0}) {
      h.weight_decay = decay;
      for (const bool amsgrad : {false, true}) {
        h.amsgrad = h.maximize = amsgrad;
        all.push_back(h);
      }
    }
  }
  h = all.front();
  h.beta1 = 0.4;
  h.beta2 = 0.95;
  h.t = 1000;
  all.push_back(h);
  h = all.front();
  h.bias_correction = false;
  all.push_back(h);
  h = {};
  h.rule = UpdateRule::sgd;
  h.lr = 0.3;
  h.weight_decay = 0.1;
  h.momentum = 0.9;
  h.dampening = 0.1;
  all.push_back(h);
  h.dampening = 0;
  h.nesterov = true;
  all.push_back(h);
  h.momentum = 0;
  h.nesterov = false;
  all.push_back(h);
  return all;
}

}  // namespace zeroproof::tests
