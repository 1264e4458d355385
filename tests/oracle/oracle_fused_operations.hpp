#pragma once
// The second fused pass of the host implementations: unscale, clip, clip by value, update and cast.
// The oracle runs them one after the other.

#include <optional>

#include "cuda/host/fused_step.hpp"
#include "oracle_cast_operations.hpp"
#include "oracle_simple_operations.hpp"
#include "oracle_update_operations.hpp"

namespace zeroproof::oracle {

/// A set of a fused operation is a set of its update, with and without a limit.
inline std::optional<float> fused_clip_value(int set) {
  if (set % 2 == 0) return std::nullopt;
  return from_bits(clip_values[set / 2 % clip_value_sets]);
}

struct FusedForm {
  UpdateRule rule;
  Operation update;
  int flags;  ///< combinations of flags per scalar case
  bool drawn;

  oracle_scalars scalars(int set) const {
    return scalars_of(set / 2 / flags, static_cast<oracle_rule>(rule));
  }
  float clip_coef(int set) const { return clip_coef_of(set / 2 / flags); }
  RoundingDraw draw(int set) const { return draws[set % draw_sets]; }
  int states() const { return static_cast<int>(update.out_types.size()); }
};

template <class T>
bool judge_fused(const FusedForm& form, int set, const Operands& o) {
  std::vector<float> grad(o.size());
  oracle_unscale(form.scalars(set).inv_scale, o.input<float>(0).data(), grad.data(), o.size());
  oracle_clip(form.clip_coef(set), grad.data(), grad.data(), o.size());
  if (const auto limit = fused_clip_value(set)) oracle_clip_value(*limit, grad.data(), o.size());
  Operands inner = o;
  inner.in[0] = grad.data();
  form.update.judge(set / 2, inner);
  const Span<float> master = o.output<float>(0);
  if constexpr (dtype_of<T> == DType::fp32) {
    std::ranges::copy(master, o.output<float>(form.states()).begin());
  } else if constexpr (dtype_of<T> == DType::fp16) {
    oracle_cast_fp16(master.data(), bits_of(o.output<fp16>(form.states())), o.size());
  } else if (form.drawn) {
    const RoundingDraw d = form.draw(set);
    oracle_cast_stochastic(d.seed, d.step, d.first_index, master.data(),
                           bits_of(o.output<bf16>(form.states())), o.size());
  } else {
    oracle_cast_bf16(master.data(), bits_of(o.output<bf16>(form.states())), o.size());
  }
  return false;
}

template <class T>
bool run_fused(const FusedForm& form, const Exec& exec, int set, const Operands& o) {
  const int flags = set / 2;
  const bool is_adam = traits_of(form.rule).amsgrad();
  cuda::host::FusedOptions options;
  options.rule = form.rule;
  options.clip_value = fused_clip_value(set);
  options.maximize = (is_adam ? flags / 2 : flags) % 2 != 0;
  options.amsgrad = is_adam && flags % 2 != 0;
  options.momentum = form.rule == UpdateRule::sgd && flags / 2 % 3 > 0;
  options.nesterov = form.rule == UpdateRule::sgd && flags / 2 % 3 > 1;
  if (traits_of(form.rule).trust_ratio) options.trust_ratio = trust_ratio_of(flags);
  if (form.drawn) options.draw = form.draw(set);
  copy_state(o, form.states());
  cuda::host::FusedState state{o.output<float>(0)};
  using enum StateSlot;
  if (traits_of(form.rule).keeps[exp_avg]) state.slots[exp_avg] = o.output<float>(1);
  if (traits_of(form.rule).keeps[exp_avg_sq]) state.slots[exp_avg_sq] = o.output<float>(2);
  if (options.amsgrad) state.slots[max_exp_avg_sq] = o.output<float>(3);
  if (options.momentum) state.slots[momentum_buffer] = o.output<float>(1);
  cuda::host::fused_update(exec, options, to_step_scalars(form.scalars(set)), form.clip_coef(set),
                           o.input<float>(0), state,
                           TensorView{o.out[form.states()], dtype_of<T>, o.numel});
  return false;
}

template <class T>
Operation fused_operation(UpdateRule rule, const Operation& update, int flags, bool drawn = false) {
  const FusedForm form{rule, update, flags, drawn};
  std::vector<DType> out_types = update.out_types;
  out_types.push_back(dtype_of<T>);
  return {
      "fused_" + update.name + "_" + std::string(name(dtype_of<T>)) + (drawn ? "_drawn" : ""),
      DType::fp32,
      update.inputs,
      out_types,
      0,
      2 * update.sets,
      arithmetic_families(),
      [](const Implementation& implementation) { return implementation.is_host; },
      [=](const Implementation&, const Exec& exec, int set, const Operands& o) {
        return run_fused<T>(form, exec, set, o);
      },
      [=](int set, const Operands& o) { return judge_fused<T>(form, set, o); },
      [=](int set) {
        const auto limit = fused_clip_value(set);
        return (limit ? "limit" + hex(std::bit_cast<std::uint32_t>(*limit)) + " " : std::string()) +
               form.update.describe(set / 2);
      }};
}

/// Every rule and every parameter type, not all pairs, which would repeat the same code.
inline std::vector<Operation> fused_operations() {
  const Operation adamw = adam_operation(true), adam = adam_operation(false);
  return {fused_operation<bf16>(UpdateRule::adamw, adamw, adam_flags),
          fused_operation<fp16>(UpdateRule::adamw, adamw, adam_flags),
          fused_operation<float>(UpdateRule::adamw, adamw, adam_flags),
          fused_operation<bf16>(UpdateRule::adamw, adamw, adam_flags, true),
          fused_operation<fp16>(UpdateRule::adam, adam, adam_flags),
          fused_operation<float>(UpdateRule::sgd, sgd_operation(), sgd_flags),
          fused_operation<bf16>(UpdateRule::sgd, sgd_operation(), sgd_flags, true),
          fused_operation<bf16>(UpdateRule::sgd_ema, sgd_ema_operation(), 2),
          fused_operation<bf16>(UpdateRule::lion, lion_operation(), 2),
          fused_operation<float>(UpdateRule::lion, lion_operation(), 2),
          fused_operation<bf16>(UpdateRule::lamb, lamb_operation(), 2),
          fused_operation<float>(UpdateRule::lamb, lamb_operation(), 2)};
}

}  // namespace zeroproof::oracle
