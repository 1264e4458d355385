#pragma once
// Expected results of a step, computed by the oracle on whole tensors (the norms of LAMB by the
// reference), without pieces, passes or a device.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "reference/operations.hpp"
#include "tests/cuda/device/step_passes_case.hpp"
#include "tests/oracle/oracle_limbs.hpp"
#include "tests/oracle/oracle_rules.hpp"
#include "tests/support/values.hpp"

namespace zeroproof::device_test {

inline oracle_hyper to_oracle(const OptimizerHyper& h, const device::ScheduleRow& row) {
  oracle_hyper o{};
  o.rule = static_cast<int>(h.rule);
  o.lr = row.lr, o.weight_decay = row.weight_decay;
  o.beta1 = h.beta1, o.beta2 = h.beta2, o.eps = h.eps;
  o.bias_correction = h.bias_correction ? 1 : 0, o.amsgrad = h.amsgrad ? 1 : 0,
  o.maximize = h.maximize ? 1 : 0;
  o.momentum = h.momentum, o.dampening = h.dampening, o.nesterov = h.nesterov ? 1 : 0;
  return o;
}

/// The automaton of common/contracts/loss_scaler.hpp, line by line.
inline LossScalerState scaler_after(const LossScalerConfig& c, LossScalerState s, bool overflow) {
  if (c.kind != LossScalerKind::dynamic) return s;
  if (overflow) {
    s.growth_tracker = 0;
    s.hysteresis_left = s.hysteresis_left > 1 ? s.hysteresis_left - 1 : 0;
    if (s.hysteresis_left == 0) s.log2_scale = std::max(s.log2_scale - c.log2_backoff, c.log2_min);
    return s;
  }
  s.growth_tracker += 1;
  if (c.refill == HysteresisRefill::good_step) s.hysteresis_left = c.hysteresis;
  if (s.growth_tracker == c.growth_interval) {
    s.growth_tracker = 0;
    s.hysteresis_left = c.hysteresis;
    if (s.log2_scale + c.log2_growth <= c.log2_max) s.log2_scale += c.log2_growth;
  }
  return s;
}

class StepTruth {
 public:
  explicit StepTruth(const StepCase& step_case)
      : c(step_case), steps(c.parts.size(), 0), ratios(c.parts.size(), 1) {
    const auto numel = static_cast<std::size_t>(c.shard_numel());
    for (int i = 0; i < num_buffers; ++i) {
      b[i] = tests::random_values(static_cast<std::int64_t>(numel), 50 + i, 3);
    }
    for (float& v : b[exp_avg_sq]) v = std::fabs(v);
    for (float& v : b[max_exp_avg_sq]) v = std::fabs(v);
    param.assign(numel, 0x5A5AU);
    state.scaler.log2_scale = c.rules.scaler.log2_initial;
    state.scaler.hysteresis_left = c.rules.scaler.hysteresis;
  }

  StepCase c;
  device::StepState state{};
  device::StepFound found{};  ///< of the last step, without the digests
  std::vector<std::uint64_t> steps;
  std::vector<float> ratios;  ///< of the last step that was not skipped
  std::vector<StepScalars> scalars;
  Buffers b;  ///< grad: G, g1 or g, by the phases done so far
  std::vector<std::uint32_t> param;

  /// has_grad: [parts], used if tensors count their own steps.
  void step(const std::vector<float>& sum, const std::vector<bool>& has_grad);

  std::size_t num_parts() const { return c.parts.size(); }
  /// Start of a part in the buffers.
  std::size_t begin(std::size_t part) const {
    std::int64_t at = 0;
    for (std::size_t i = 0; i <= part; ++i)
      at += c.parts[i].gap + (i < part ? c.parts[i].numel : 0);
    return static_cast<std::size_t>(at);
  }
  Span<float> values(Buffer buffer, std::size_t part) {
    return {b[buffer].data() + begin(part), static_cast<std::size_t>(c.parts[part].numel)};
  }
  /// The cast of the phases writes every tensor; the fused pass only those that have a gradient.
  bool casts_all = false;

  std::uint64_t steps_of(std::size_t part) const {
    return c.own_counts ? steps[part] : state.applied_steps;
  }

 private:
  bool make_scalars();
  void measure();
  void update(std::size_t part);
  void cast(std::size_t part);
  const StepScalars& scalars_of(std::size_t part) const {
    return scalars[c.own_counts ? part : static_cast<std::size_t>(c.parts[part].group)];
  }
};

inline bool StepTruth::make_scalars() {
  const auto t = static_cast<std::int64_t>(state.applied_steps) + 1;
  found.t = static_cast<std::uint64_t>(t);
  const auto num_rows = static_cast<std::int64_t>(c.schedule.size()) / c.num_groups;
  if (t < c.first_row_t || t >= c.first_row_t + num_rows) {
    state.halt |= device::halt_schedule_left;
    return false;
  }
  const std::size_t num_sets = c.own_counts ? num_parts() : static_cast<std::size_t>(c.num_groups);
  scalars.clear();
  for (std::size_t set = 0; set < num_sets; ++set) {
    const std::int64_t group = c.own_counts ? c.parts[set].group : static_cast<std::int64_t>(set);
    const auto& row = c.schedule[(t - c.first_row_t) * c.num_groups + group];
    const oracle_hyper hyper = to_oracle(c.rules.hyper, row);
    const std::int64_t own_t = c.own_counts ? static_cast<std::int64_t>(steps[set]) + 1 : t;
    oracle_scalars made{};
    if (oracle_step_scalars(&hyper, own_t, state.scaler.log2_scale, c.divisor, &made) == 0) {
      state.halt |= device::halt_scalars_refused;
      return false;
    }
    scalars.push_back(std::bit_cast<StepScalars>(made));
  }
  return true;
}

inline void StepTruth::measure() {
  oracle_sum chunks;
  oracle_exact exact;
  oracle_norm_clear(&chunks);
  oracle_exact_clear(&exact);
  std::uint32_t amax = 0;
  const NormForm form = c.rules.hyper.norm;
  for (std::size_t part = 0; part < num_parts(); ++part) {
    const Span<float> g = values(grad, part);
    if (!c.parts[part].counted) continue;
    if (form == NormForm::chunk1024) oracle_norm_add(&chunks, g.data(), g.size());
    if (form == NormForm::exact) oracle_exact_add_squares(&exact, g.data(), g.size());
    if (form == NormForm::one) oracle_exact_add_magnitudes(&exact, g.data(), g.size());
    if (form == NormForm::inf) amax = oracle_max_bits(g.data(), g.size(), amax);
  }
  if (form == NormForm::inf) {
    found.amax = amax;
    found.grad_norm = oracle_max_finish(amax);
    return;
  }
  const NormLimbs limbs =
      form == NormForm::chunk1024 ? oracle::to_limbs(chunks) : oracle::to_limbs(exact);
  for (std::size_t i = 0; i < limbs.limbs.size(); ++i) found.sums[i] = limbs.limbs[i];
  found.sums[21] = limbs.nan_count;
  found.sums[22] = limbs.inf_count;
  found.grad_norm = form == NormForm::chunk1024 ? oracle_norm_finish(&chunks)
                    : form == NormForm::exact   ? oracle_exact_norm(&exact)
                                                : oracle_exact_value(&exact);
}

inline void StepTruth::update(std::size_t part) {
  const OptimizerHyper& h = c.rules.hyper;
  const StepScalars& s = scalars_of(part);
  const auto of = [&](Buffer buffer) { return values(buffer, part); };
  const Span<const float> g = of(grad);
  if (h.rule == UpdateRule::adamw || h.rule == UpdateRule::adam) {
    tests::adam_by_oracle(h.rule == UpdateRule::adamw, {h.amsgrad, h.maximize}, s, g, of(master),
                          of(exp_avg), of(exp_avg_sq), of(max_exp_avg_sq));
  } else if (h.rule == UpdateRule::sgd) {
    tests::sgd_by_oracle({h.momentum != 0, h.nesterov, h.maximize}, s, g, of(master),
                         of(momentum_buffer));
  } else if (h.rule == UpdateRule::sgd_ema) {
    tests::sgd_ema_by_oracle({h.maximize}, s, g, of(master), of(exp_avg));
  } else if (h.rule == UpdateRule::lamb) {
    TrustNorms norms;
    reference::lamb_norms({}, {h.maximize}, s, g, of(master), of(exp_avg), of(exp_avg_sq), norms);
    // The other ranks of a tensor that this one does not count have not added anything.
    ratios[part] = c.parts[part].counted ? reference::lamb_trust_ratio(s, norms) : 1;
    tests::lamb_by_oracle({h.maximize}, s, ratios[part], g, of(master), of(exp_avg),
                          of(exp_avg_sq));
  } else {
    tests::lion_by_oracle({h.maximize}, s, g, of(master), of(exp_avg));
  }
}

inline void StepTruth::cast(std::size_t part) {
  const PartSpec& spec = c.parts[part];
  const Span<float> from = values(master, part);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::int64_t e = spec.tensor_begin + static_cast<std::int64_t>(i);
    const std::int64_t index =
        spec.place_begin + e / spec.row_numel * spec.row_stride + e % spec.row_numel;
    std::uint16_t half = 0;
    if (c.rules.rounding == ParamRounding::stochastic) {
      oracle_cast_stochastic(c.rules.seed, steps_of(part), static_cast<std::uint64_t>(index),
                             &from[i], &half, 1);
    } else if (c.rules.param_dtype == DType::bf16) {
      oracle_cast_bf16(&from[i], &half, 1);
    } else {
      oracle_cast_fp16(&from[i], &half, 1);
    }
    param[begin(part) + i] = c.rules.param_dtype == DType::fp32 ? tests::bits(from[i]) : half;
  }
}

inline void StepTruth::step(const std::vector<float>& sum, const std::vector<bool>& has_grad) {
  b[grad] = sum;
  found = {};
  if (state.halt != 0 || !make_scalars()) return;
  for (std::size_t part = 0; part < num_parts(); ++part) {
    const Span<float> g = values(grad, part);
    if (oracle_unscale(scalars_of(part).inv_scale, g.data(), g.data(), g.size()) != 0)
      found.found_inf = 1;
  }
  if (found.found_inf != 0 && c.rules.on_nonfinite == OnNonfinite::error) {
    state.halt |= device::halt_nonfinite;
    return;
  }
  state.scaler = scaler_after(c.rules.scaler, state.scaler, found.found_inf != 0);
  measure();
  if (found.found_inf != 0 && c.rules.on_nonfinite == OnNonfinite::skip) {
    found.skipped = 1;
    found.grad_norm = std::numeric_limits<double>::quiet_NaN();
    found.clip_coef = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  const auto& max_norm = c.rules.hyper.max_norm;
  oracle_clip_coef(found.grad_norm, max_norm ? 1 : 0, max_norm.value_or(0), &found.clip_coef);
  for (std::size_t part = 0; part < num_parts(); ++part) {
    const Span<float> g = values(grad, part);
    oracle_clip(found.clip_coef, g.data(), g.data(), g.size());
    if (c.rules.hyper.clip_value)
      oracle_clip_value(static_cast<float>(*c.rules.hyper.clip_value), g.data(), g.size());
  }
  state.applied_steps += 1;
  for (std::size_t part = 0; part < num_parts(); ++part) {
    const bool moves = !c.own_counts || has_grad[part];
    ratios[part] = 1;
    if (c.own_counts && moves) steps[part] += 1;
    if (moves) update(part);
    if (moves || casts_all) cast(part);
  }
}

}  // namespace zeroproof::device_test
