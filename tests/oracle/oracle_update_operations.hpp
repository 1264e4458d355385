#pragma once
// The update rules (R6) with all combinations of their flags: a set is a scalar case and a
// combination.

#include "oracle_operations.hpp"

namespace zeroproof::oracle {

inline constexpr int adam_flags = 4;  ///< amsgrad and maximize

inline Operation adam_operation(bool decoupled) {
  const oracle_rule rule = decoupled ? oracle_rule_adamw : oracle_rule_adam;
  const auto run = [=](const Implementation& implementation, const Exec& exec, int set,
                       const Operands& o) {
    const AdamOptions options{set % 2 != 0, set / 2 % 2 != 0};
    copy_state(o, 4);
    (decoupled ? implementation.adamw_update : implementation.adam_update)(
        exec, options, to_step_scalars(scalars_of(set / adam_flags, rule)), o.input<float>(0),
        o.output<float>(0), o.output<float>(1), o.output<float>(2),
        options.amsgrad ? o.output<float>(3) : Span<float>{});
    return false;
  };
  const auto judge = [=](int set, const Operands& o) {
    const oracle_adam_options options{decoupled ? 1 : 0, set % 2, set / 2 % 2};
    const oracle_scalars scalars = scalars_of(set / adam_flags, rule);
    copy_state(o, 4);
    oracle_adam(&options, &scalars, o.input<float>(0).data(), o.output<float>(0).data(),
                o.output<float>(1).data(), o.output<float>(2).data(), o.output<float>(3).data(),
                o.size());
    return false;
  };
  const auto describe = [=](int set) {
    return std::string(set % 2 != 0 ? "amsgrad " : "") + (set / 2 % 2 != 0 ? "maximize " : "") +
           describe_scalars(set / adam_flags, rule);
  };
  constexpr DType f = DType::fp32;
  return {decoupled ? "adamw" : "adam",
          f,
          5,
          {f, f, f, f},
          0,
          adam_flags * scalar_sets,
          arithmetic_families(),
          [=](const Implementation& implementation) {
            return (decoupled ? implementation.adamw_update : implementation.adam_update) !=
                   nullptr;
          },
          run,
          judge,
          describe};
}

inline constexpr int sgd_flags = 6;  ///< maximize, and no momentum, momentum, nesterov

inline Operation sgd_operation() {
  const auto run = [](const Implementation& implementation, const Exec& exec, int set,
                      const Operands& o) {
    const int momentum = set / 2 % 3;
    const SgdOptions options{momentum > 0, momentum > 1, set % 2 != 0};
    copy_state(o, 2);
    implementation.sgd_update(exec, options,
                              to_step_scalars(scalars_of(set / sgd_flags, oracle_rule_sgd)),
                              o.input<float>(0), o.output<float>(0),
                              options.momentum ? o.output<float>(1) : Span<float>{});
    return false;
  };
  const auto judge = [](int set, const Operands& o) {
    const int momentum = set / 2 % 3;
    const oracle_sgd_options options{momentum > 0 ? 1 : 0, momentum > 1 ? 1 : 0, set % 2};
    const oracle_scalars scalars = scalars_of(set / sgd_flags, oracle_rule_sgd);
    copy_state(o, 2);
    oracle_sgd(&options, &scalars, o.input<float>(0).data(), o.output<float>(0).data(),
               o.output<float>(1).data(), o.size());
    return false;
  };
  const auto describe = [](int set) {
    constexpr const char* names[] = {"", "momentum ", "nesterov "};
    return std::string(set % 2 != 0 ? "maximize " : "") + names[set / 2 % 3] +
           describe_scalars(set / sgd_flags, oracle_rule_sgd);
  };
  constexpr DType f = DType::fp32;
  return {"sgd",
          f,
          3,
          {f, f},
          0,
          sgd_flags * scalar_sets,
          arithmetic_families(),
          [](const Implementation& implementation) { return implementation.sgd_update != nullptr; },
          run,
          judge,
          describe};
}

/// sgd_ema and lion: one state buffer, and maximize as the only flag.
template <class Options, class Update>
Operation one_state_operation(const std::string& name, oracle_rule rule,
                              Update Implementation::*update, decltype(oracle_lion)* oracle) {
  const auto run = [=](const Implementation& implementation, const Exec& exec, int set,
                       const Operands& o) {
    copy_state(o, 2);
    (implementation.*update)(exec, Options{set % 2 != 0},
                             to_step_scalars(scalars_of(set / 2, rule)), o.input<float>(0),
                             o.output<float>(0), o.output<float>(1));
    return false;
  };
  const auto judge = [=](int set, const Operands& o) {
    const oracle_scalars scalars = scalars_of(set / 2, rule);
    copy_state(o, 2);
    oracle(set % 2, &scalars, o.input<float>(0).data(), o.output<float>(0).data(),
           o.output<float>(1).data(), o.size());
    return false;
  };
  constexpr DType f = DType::fp32;
  return {name,
          f,
          3,
          {f, f},
          0,
          2 * scalar_sets,
          arithmetic_families(),
          [=](const Implementation& implementation) { return implementation.*update != nullptr; },
          run,
          judge,
          [=](int set) {
            return std::string(set % 2 != 0 ? "maximize " : "") + describe_scalars(set / 2, rule);
          }};
}

inline Operation sgd_ema_operation() {
  return one_state_operation<SgdEmaOptions>("sgd_ema", oracle_rule_sgd_ema,
                                            &Implementation::sgd_ema_update, oracle_sgd_ema);
}

inline Operation lion_operation() {
  return one_state_operation<LionOptions>("lion", oracle_rule_lion, &Implementation::lion_update,
                                          oracle_lion);
}

/// 1 is multiplied as well; 0 is a ratio that underflowed, and NaN that of a NaN norm.
inline float trust_ratio_of(int set) {
  constexpr std::uint32_t ratios[] = {0x3F800000, 0x3EBD70A4, 0x00000000, 0x53C00000,
                                      0x7FC00000, 0x7F800000, 0x00000001, 0x3F7FFFFF};
  return from_bits(ratios[set % static_cast<int>(std::size(ratios))]);
}

inline Operation lamb_operation() {
  constexpr oracle_rule rule = oracle_rule_lamb;
  const auto run = [](const Implementation& implementation, const Exec& exec, int set,
                      const Operands& o) {
    copy_state(o, 3);
    implementation.lamb_update(exec, {set % 2 != 0}, to_step_scalars(scalars_of(set / 2, rule)),
                               trust_ratio_of(set), o.input<float>(0), o.output<float>(0),
                               o.output<float>(1), o.output<float>(2));
    return false;
  };
  const auto judge = [](int set, const Operands& o) {
    const oracle_scalars scalars = scalars_of(set / 2, rule);
    copy_state(o, 3);
    oracle_lamb(set % 2, &scalars, trust_ratio_of(set), o.input<float>(0).data(),
                o.output<float>(0).data(), o.output<float>(1).data(), o.output<float>(2).data(),
                nullptr, o.size());
    return false;
  };
  constexpr DType f = DType::fp32;
  return {
      "lamb",
      f,
      4,
      {f, f, f},
      0,
      2 * scalar_sets,
      arithmetic_families(),
      [](const Implementation& implementation) { return implementation.lamb_update != nullptr; },
      run,
      judge,
      [](int set) {
        return std::string(set % 2 != 0 ? "maximize " : "") + "ratio" +
               hex(std::bit_cast<std::uint32_t>(trust_ratio_of(set))) + " " +
               describe_scalars(set / 2, rule);
      }};
}

inline std::vector<Operation> update_operations() {
  return {adam_operation(true), adam_operation(false), sgd_operation(),
          sgd_ema_operation(),  lion_operation(),      lamb_operation()};
}

}  // namespace zeroproof::oracle
