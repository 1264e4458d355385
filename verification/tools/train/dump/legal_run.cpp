#include "verification/tools/train/dump/legal_run.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "verification/compare/bounds/model.hpp"
#include "verification/compare/bounds/power_sum.hpp"
#include "verification/compare/bounds/step_bounds.hpp"
#include "verification/tools/judge_run/run_element.hpp"

namespace zeroproof::verification {
namespace {

using namespace bounds;

constexpr Real nan_value = std::numeric_limits<Real>::quiet_NaN();

/// 0.9 of 0.9F: the shortest decimal number that is rounded to this one.
double decimal_of(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  double decimal = value;
  std::from_chars(text, end, decimal);
  return decimal;
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

ElementBound bound(const BoundedValue& value) {
  if (std::isnan(value.exact)) return {value.exact, 0, true};
  const bool judged = std::isfinite(value.exact) && std::fabs(value.exact) + value.error < largest;
  return {value.exact, value.error * slack, judged};
}

BoundedValue kept(const ElementBound& result) {
  // Nothing is known of the steps after a result outside the conditions.
  return result.judged ? BoundedValue{result.exact, result.allowed}
                       : BoundedValue{result.exact, infinite};
}

void require(bool given, const std::string& setting, const std::string& why) {
  ZP_CHECK(given, ErrorCode::config, "--accept any-order was given with " + setting, why,
           "leave --accept out, or change the setting");
}

}  // namespace

LegalRun::LegalRun(const Experiment& experiment, const FullState& start, bool decimal_betas)
    : experiment_(experiment),
      setup_(experiment.setup()),
      beta1_(decimal_betas ? decimal_of(setup_.hyper.beta1) : setup_.hyper.beta1),
      beta2_(decimal_betas ? decimal_of(setup_.hyper.beta2) : setup_.hyper.beta2) {
  require(experiment.context() == 0, "gradients of a model",
          "they depend on the parameters, so that rounding errors are fed back");
  require(!traits_of(setup_.hyper.rule).trust_ratio, "the rule lamb",
          "its trust ratio has no bound over several steps");
  require(!traits_of(setup_.hyper.rule).matrices, "the rule muon",
          "every element of a matrix depends on all of its elements");
  require(!has_scales(setup_.param_dtype), "parameters of 8 bits",
          "their scales depend on the order of operations");
  require(setup_.param_rounding == ParamRounding::nearest, "stochastic rounding",
          "a draw may change with the last bit of a master");
  require(setup_.on_nonfinite != OnNonfinite::propagate, "on_nonfinite = \"propagate\"",
          "values that are not finite have no bound");
  require(setup_.missing_grad == MissingGrad::zero, "missing_grad = \"skip\"",
          "each tensor then has a step count of its own");
  require(setup_.state_formats.exp_avg == StateFormat::fp32 &&
              setup_.state_formats.exp_avg_sq == StateFormat::fp32 &&
              setup_.state_formats.master == MasterFormat::fp32,
          "state that is not stored in fp32", "its rounding has no bound over several steps");
  const auto numel = static_cast<std::size_t>(setup_.layout->padded_numel());
  const auto at = [](Span<const float> values, std::size_t i) {
    return Value{values.empty() ? 0.0F : values[i], 0};
  };
  for (std::size_t i = 0; i < numel; ++i) {
    state_.push_back({at(start.master, i), at(start.slots[StateSlot::exp_avg], i),
                      at(start.slots[StateSlot::exp_avg_sq], i),
                      at(start.slots[StateSlot::max_exp_avg_sq], i),
                      at(start.slots[StateSlot::momentum_buffer], i)});
  }
}

void LegalRun::step(std::int64_t number, const reference::DenseStep& last, std::int64_t t,
                    const ReportedScalars& reported) {
  sum_gradients(number, last.log2_loss_scale);
  skipped_ = last.skipped;
  const auto groups = static_cast<std::size_t>(setup_.clip_groups.count());
  norms_.assign(groups, {nan_value, 0});
  coefs_ = used_norms_ = used_coefs_ = norms_;
  grads_.assign(sums_.size(), {nan_value, 0});
  if (skipped_) return;
  take_norms(reported);
  clip();
  update(t);
}

void LegalRun::sum_gradients(std::int64_t number, int log2_loss_scale) {
  const auto numel = static_cast<std::size_t>(setup_.layout->padded_numel());
  const std::int64_t micro_batches = setup_.micro_batches;
  std::vector<Real> magnitudes(numel, 0);
  sums_.assign(numel, {0, 0});
  std::int64_t tokens = 0;
  std::vector<float> wide(numel);
  std::vector<fp16> narrow(setup_.grad_dtype == DType::fp16 ? numel : 0);
  const TensorView leaf =
      narrow.empty() ? TensorView{wide.data(), DType::fp32, static_cast<std::int64_t>(numel)}
                     : TensorView{narrow.data(), DType::fp16, static_cast<std::int64_t>(numel)};
  for (std::int64_t j = 0; j < micro_batches; ++j) {
    experiment_.micro_batch_grad(number, j, {}, log2_loss_scale, leaf);
    tokens += experiment_.num_tokens(j);
    for (const TensorSlot& slot : setup_.layout->tensors()) {
      for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
        const Real x = load_element(leaf, i);
        sums_[static_cast<std::size_t>(i)].exact += x;
        magnitudes[static_cast<std::size_t>(i)] += std::fabs(x);
      }
    }
  }
  const double divisor = std::ldexp(setup_.loss_reduction == LossReduction::tokens
                                        ? static_cast<double>(std::max<std::int64_t>(tokens, 1))
                                        : static_cast<double>(micro_batches),
                                    log2_loss_scale);
  // One division for micro-batches, ranks and loss scale each; powers of two round only below the normal numbers.
  const int divisions = is_power_of_two(divisor) ? 0 : 3;
  const Real additions = gamma_of(static_cast<int>(micro_batches) - 1);
  const Real roundings = gamma_of(static_cast<int>(micro_batches) - 1 + divisions);
  const Real underflow = divisor == 1 ? 0 : static_cast<Real>(micro_batches + 3) * eta;
  means_.assign(numel, {0, 0});
  for (std::size_t i = 0; i < numel; ++i) {
    Value& sum = sums_[i];
    if (magnitudes[i] == 0) continue;
    const bool fits = magnitudes[i] < largest;
    sum.error = fits ? additions * magnitudes[i] : infinite;
    means_[i] = {
        sum.exact / static_cast<Real>(divisor),
        fits ? roundings * magnitudes[i] / static_cast<Real>(divisor) + underflow : infinite};
  }
}

void LegalRun::take_norms(const ReportedScalars& reported) {
  const std::vector<std::optional<double>> limits =
      max_norms_of(setup_.clip_groups, setup_.hyper.max_norm);
  const NormForm form = setup_.hyper.norm;
  const Real p = form == NormForm::one ? 1 : 2;
  std::vector<PowerSum> powers(norms_.size()), errors(norms_.size());
  std::vector<Value> greatest(norms_.size(), {0, 0});
  for (std::size_t tensor = 0; tensor < setup_.layout->tensors().size(); ++tensor) {
    const TensorSlot& slot = setup_.layout->tensors()[tensor];
    const auto group =
        static_cast<std::size_t>(setup_.clip_groups.of(static_cast<std::int64_t>(tensor)));
    for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
      const Value& g = means_[static_cast<std::size_t>(i)];
      const Real x = std::fabs(g.exact);
      powers[group].add(p == 2 ? x * x : x);
      errors[group].add(p == 2 ? g.error * g.error : g.error);
      greatest[group].exact = std::max(greatest[group].exact, x);
      greatest[group].error = std::max(greatest[group].error, g.error);
    }
  }
  for (std::size_t k = 0; k < norms_.size(); ++k) {
    const auto root = [&](Real sum) { return p == 2 ? std::sqrt(sum) : sum; };
    Value& n = norms_[k];
    if (form == NormForm::inf) {
      n = greatest[k];
    } else {
      n = {root(powers[k].total()), root(errors[k].total())};
      const Real error = powers[k].norm_error(p);
      // Norms of ranks and of tensors may be joined: a root, a square and their sum each.
      n.error = error < 0 || n.exact >= largest ? infinite
                                                : n.error + (n.exact + n.error) * (error + 32 * u);
    }
    n.error += u * (n.exact + n.error) + (n.exact == 0 ? 0 : eta);
    // Beyond its bound a reported norm is wrong, and so is every number made of it.
    Value used = n;
    if (!reported.grad_norm.empty() && bound(n).ratio(reported.grad_norm[k]) <= 1 &&
        std::isfinite(n.error))
      used = {static_cast<Real>(reported.grad_norm[k]),
              2 * u * static_cast<Real>(reported.grad_norm[k])};
    used_norms_[k] = used;
    const auto coefficient = [&](const Value& norm) -> Value {
      if (!limits[k] || *limits[k] == 0) return {1, 0};
      const auto limit = static_cast<Real>(*limits[k]);
      const auto quotient = [&](Real of) { return limit / (std::max<Real>(of, 0) + 1e-6); };
      if (!std::isfinite(norm.error)) return {1, infinite};
      const Real low = quotient(norm.exact + norm.error) * (1 - gamma_of(4)) - eta;
      const Real high = quotient(norm.exact - norm.error) * (1 + gamma_of(4)) + eta;
      if (low >= 1) return {1, 0};
      const Real c = std::min<Real>(quotient(norm.exact), 1);
      return {c, std::max(std::min<Real>(high, 1) - c, c - low)};
    };
    coefs_[k] = used_coefs_[k] = coefficient(used);
    if (!reported.clip_coef.empty() && std::isfinite(coefs_[k].error) &&
        bound(coefs_[k]).ratio(reported.clip_coef[k]) <= 1 && coefs_[k].error > 0)
      used_coefs_[k] = {static_cast<Real>(reported.clip_coef[k]),
                        2 * u * static_cast<Real>(reported.clip_coef[k])};
  }
}

void LegalRun::clip() {
  for (std::size_t tensor = 0; tensor < setup_.layout->tensors().size(); ++tensor) {
    const TensorSlot& slot = setup_.layout->tensors()[tensor];
    const Value& c = used_coefs_[static_cast<std::size_t>(
        setup_.clip_groups.of(static_cast<std::int64_t>(tensor)))];
    for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
      const Value& mean = means_[static_cast<std::size_t>(i)];
      Value& g = grads_[static_cast<std::size_t>(i)];
      g = mean;
      if ((c.exact != 1 || c.error != 0) && (mean.exact != 0 || mean.error != 0)) {
        const Real most = (std::fabs(mean.exact) + mean.error) * (c.exact + c.error);
        g = {mean.exact * c.exact, mean.error * (c.exact + c.error) +
                                       std::fabs(mean.exact) * c.error + gamma_of(2) * most +
                                       2 * eta};
      }
      if (!setup_.hyper.clip_value) continue;
      const auto limit = static_cast<Real>(static_cast<float>(*setup_.hyper.clip_value));
      g.exact = std::clamp(g.exact, -limit, limit);  // does not increase a distance
    }
  }
}

void LegalRun::update(std::int64_t t) {
  std::vector<UpdateBounds> of_group;
  for (int group = 0; group < setup_.groups.count(); ++group) {
    of_group.emplace_back(hyper_of(setup_.groups, setup_.hyper, group, t, setup_.micro_batches), t);
    of_group.back().set_betas(beta1_, beta2_);
  }
  const auto keeps = traits_of(setup_.hyper.rule).keeps;
  for (std::size_t tensor = 0; tensor < setup_.layout->tensors().size(); ++tensor) {
    const TensorSlot& slot = setup_.layout->tensors()[tensor];
    const UpdateBounds& bounds =
        of_group[static_cast<std::size_t>(setup_.groups.of(static_cast<std::int64_t>(tensor)))];
    for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
      BoundedState& state = state_[static_cast<std::size_t>(i)];
      const UpdateBound after = bounds(grads_[static_cast<std::size_t>(i)], state);
      state.master = kept(after.master);
      if (keeps[StateSlot::exp_avg]) state.exp_avg = kept(after.exp_avg);
      if (keeps[StateSlot::exp_avg_sq]) state.exp_avg_sq = kept(after.exp_avg_sq);
      if (setup_.hyper.amsgrad) state.max_exp_avg_sq = kept(after.max_exp_avg_sq);
      if (setup_.hyper.momentum != 0) state.momentum_buffer = kept(after.momentum_buffer);
    }
  }
}

bool LegalRun::has_bound(const DumpBuffer& buffer) {
  switch (buffer.id) {
    case BufferId::grad_sum:
    case BufferId::grad_norm:
    case BufferId::clip_coef:
    case BufferId::grad:
    case BufferId::master:
    case BufferId::param_full:
      return true;
    default:
      return is_state(buffer.id);
  }
}

ElementBound LegalRun::bound_of(const DumpBuffer& buffer, std::int64_t parameter,
                                std::int64_t i) const {
  const auto at = static_cast<std::size_t>(
      buffer.per_parameter ? setup_.layout->tensors()[static_cast<std::size_t>(parameter)].begin + i
                           : i);
  switch (buffer.id) {
    case BufferId::grad_sum:
      return bound(sums_[at]);
    case BufferId::grad_norm:
      return bound(norms_[at]);
    case BufferId::clip_coef:
      return bound(coefs_[at]);
    case BufferId::grad:
      return bound(grads_[at]);
    case BufferId::exp_avg:
      return bound(state_[at].exp_avg);
    case BufferId::exp_avg_sq:
      return bound(state_[at].exp_avg_sq);
    case BufferId::max_exp_avg_sq:
      return bound(state_[at].max_exp_avg_sq);
    case BufferId::momentum_buffer:
      return bound(state_[at].momentum_buffer);
    case BufferId::param_full: {
      ElementBound result = bound(state_[at].master);
      if (setup_.param_dtype == DType::bf16) {
        result.cast_to_bf16 = true;  // [Bound:bf16]
        return result;
      }
      return stored_in(setup_.param_dtype, result);
    }
    default:
      return bound(state_[at].master);
  }
}

}  // namespace zeroproof::verification
