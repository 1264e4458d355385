#pragma once
// What the tests of the whole step drive it with: a layout of awkward sizes, leaves without a model, a state in the
// middle of a run, and every rule, norm form and policy.

#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/float_formats.hpp"
#include "common/base/philox.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::tests {

/// A tensor of every awkward size; the middle one has no elements.
inline const FlatLayout& odd_layout() {
  static const FlatLayout layout({{"one", {}},
                                  {"seven", {7}},
                                  {"none", {0, 5}},
                                  {"chunk", {1024}},
                                  {"odd", {3, 701}},
                                  {"last", {1025}}});
  return layout;
}

/// Leaves of one step: bell-shaped, with an infinity in the leaf of micro-batch 1 of step `overflow_step`. With gaps,
/// "seven" has a gradient from micro-batch 0 only, and "odd" has none in every third step.
class Leaves final : public LeafSource {
 public:
  Leaves(std::int64_t step, std::int64_t micro_batches, DType dtype, std::int64_t overflow_step,
         bool gaps = false)
      : step_(step), gaps_(gaps) {
    const auto numel = static_cast<std::size_t>(odd_layout().padded_numel());
    for (std::int64_t j = 0; j < micro_batches; ++j) {
      const Philox random(99, 7, static_cast<std::uint32_t>(step * 1000 + j));
      std::vector<float> values(numel, std::numeric_limits<float>::quiet_NaN());
      for (const Piece& piece : odd_layout().pieces({{0, odd_layout().padded_numel()}})) {
        for (std::int64_t i = piece.global_begin; i < piece.global_begin + piece.numel; ++i) {
          values[static_cast<std::size_t>(i)] =
              has_grad(j, piece.tensor) ? random.bell(static_cast<std::uint64_t>(i)) * 3.0F : 0.0F;
        }
      }
      if (step == overflow_step && j == 1) values[1024] = std::numeric_limits<float>::infinity();
      wide_.push_back(values);
      half_.emplace_back(numel);
      for (std::size_t i = 0; i < numel; ++i) {
        half_.back()[i] = dtype == DType::fp16 ? to_fp16(values[i]).bits : to_bf16(values[i]).bits;
      }
    }
    dtype_ = dtype;
  }

  TensorView leaf(std::int64_t j) override {
    const auto index = static_cast<std::size_t>(j);
    void* data = dtype_ == DType::fp32 ? static_cast<void*>(wide_[index].data()) : half_[index].data();
    return {data, dtype_, odd_layout().padded_numel()};
  }
  std::int64_t num_tokens(std::int64_t j) const override { return 7 * j; }
  bool has_grad(std::int64_t j, std::int64_t tensor) const override {
    if (!gaps_) return true;
    return tensor == 1 ? j == 0 : tensor != 4 || step_ % 3 != 0;
  }
  std::vector<TensorView> views() {
    std::vector<TensorView> all;
    for (std::size_t j = 0; j < wide_.size(); ++j) all.push_back(leaf(static_cast<std::int64_t>(j)));
    return all;
  }

 private:
  DType dtype_ = DType::fp32;
  std::int64_t step_;
  bool gaps_;
  std::vector<std::vector<float>> wide_;
  std::vector<std::vector<std::uint16_t>> half_;
};

struct State {
  std::vector<float> master, exp_avg, exp_avg_sq, max_exp_avg_sq;
  std::vector<std::uint64_t> tensor_steps;

  FullState full(std::int64_t applied) const {
    FullState state;
    state.master = master;
    state.exp_avg = exp_avg;
    state.exp_avg_sq = exp_avg_sq;
    state.max_exp_avg_sq = max_exp_avg_sq;
    state.momentum_buffer = exp_avg;
    state.tensor_steps = tensor_steps;
    state.applied_steps = applied;
    state.scaler = {4, 0, 2};
    return state;
  }
};

inline State first_state() {
  const auto numel = static_cast<std::size_t>(odd_layout().padded_numel());
  State state;
  const Philox random(5, 1);
  for (std::size_t i = 0; i < numel; ++i) {
    state.master.push_back(random.bell(i) * 0.1F);
    state.exp_avg.push_back(random.bell(numel + i) * 0.01F);
    state.exp_avg_sq.push_back(random.uniform(5 * numel + i) * 1e-3F);
    state.max_exp_avg_sq.push_back(random.uniform(6 * numel + i) * 2e-3F);
  }
  state.tensor_steps = {3, 0, 7, 3, 1, 2};
  return state;
}

struct Recipe {
  const char* name;
  OptimizerHyper hyper = {};
  LossReduction loss_reduction = LossReduction::mean;
  OnNonfinite on_nonfinite = OnNonfinite::skip;
  MissingGrad missing_grad = MissingGrad::zero;
  ParamRounding param_rounding = ParamRounding::nearest;
};

/// Every rule, norm form and policy at least once; each differs from the rest by what its name says.
inline std::vector<Recipe> recipes() {
  std::vector<Recipe> all = {{"adamw"}};
  const auto add = [&](const char* name, auto change) {
    Recipe recipe{name};
    change(recipe);
    all.push_back(recipe);
  };
  add("adamw amsgrad maximize", [](Recipe& r) { r.hyper.amsgrad = r.hyper.maximize = true; });
  add("adam amsgrad clip_value", [](Recipe& r) {
    r.hyper.rule = UpdateRule::adam;
    r.hyper.amsgrad = true;
    r.hyper.clip_value = 0.01;
  });
  add("sgd without momentum, norm one", [](Recipe& r) {
    r.hyper.rule = UpdateRule::sgd;
    r.hyper.norm = NormForm::one;
  });
  add("sgd nesterov maximize, norm exact", [](Recipe& r) {
    r.hyper.rule = UpdateRule::sgd;
    r.hyper.momentum = 0.9;
    r.hyper.nesterov = r.hyper.maximize = true;
    r.hyper.norm = NormForm::exact;
  });
  add("sgd dampening, tokens", [](Recipe& r) {
    r.hyper.rule = UpdateRule::sgd;
    r.hyper.momentum = 0.9;
    r.hyper.dampening = 0.5;
    r.loss_reduction = LossReduction::tokens;
  });
  add("sgd_ema, norm inf", [](Recipe& r) {
    r.hyper.rule = UpdateRule::sgd_ema;
    r.hyper.norm = NormForm::inf;
  });
  add("adamw, propagate", [](Recipe& r) { r.on_nonfinite = OnNonfinite::propagate; });
  add("adamw, tensors without gradient", [](Recipe& r) { r.missing_grad = MissingGrad::skip; });
  add("adamw, stochastic rounding", [](Recipe& r) { r.param_rounding = ParamRounding::stochastic; });
  add("sgd nesterov, tensors without gradient, stochastic rounding", [](Recipe& r) {
    r.hyper.rule = UpdateRule::sgd;
    r.hyper.momentum = 0.9;
    r.hyper.nesterov = true;
    r.missing_grad = MissingGrad::skip;
    r.param_rounding = ParamRounding::stochastic;
  });
  return all;
}

}  // namespace zeroproof::tests
