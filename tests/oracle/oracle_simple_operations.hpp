#pragma once
// The operations before the update: unscale, clip, clip_value and the addition of two nodes.

#include "oracle_operations.hpp"

namespace zeroproof::oracle {

/// inv_scale does not depend on the rule.
inline float inv_scale_of(int set) { return scalars_of(set, oracle_rule_adamw).inv_scale; }

inline std::string describe_simple(int set) { return describe_scalars(set, oracle_rule_adamw); }

inline Operation unscale_operation() {
  return {"unscale",
          DType::fp32,
          1,
          {DType::fp32},
          1,
          scalar_sets,
          arithmetic_families(),
          [](const Implementation& implementation) { return implementation.unscale != nullptr; },
          [](const Implementation& implementation, const Exec& exec, int set, const Operands& o) {
            return implementation.unscale(exec, inv_scale_of(set), o.input<float>(0),
                                          o.output<float>(0));
          },
          [](int set, const Operands& o) {
            return oracle_unscale(inv_scale_of(set), o.input<float>(0).data(),
                                  o.output<float>(0).data(), o.size()) != 0;
          },
          describe_simple};
}

inline Operation clip_operation() {
  return {"clip",
          DType::fp32,
          1,
          {DType::fp32},
          1,
          scalar_sets,
          arithmetic_families(),
          [](const Implementation& implementation) { return implementation.clip != nullptr; },
          [](const Implementation& implementation, const Exec& exec, int set, const Operands& o) {
            implementation.clip(exec, clip_coef_of(set), o.input<float>(0), o.output<float>(0));
            return false;
          },
          [](int set, const Operands& o) {
            oracle_clip(clip_coef_of(set), o.input<float>(0).data(), o.output<float>(0).data(),
                        o.size());
            return false;
          },
          describe_simple};
}

/// In place only; the engine's outputs are copies, so the input is copied first.
inline Operation clip_value_operation() {
  const auto copy = [](const Operands& o) {
    if (o.out[0] != o.in[0]) std::ranges::copy(o.input<float>(0), o.output<float>(0).begin());
  };
  return {"clip_value",
          DType::fp32,
          1,
          {DType::fp32},
          1,
          clip_value_sets,
          arithmetic_families(),
          [](const Implementation& implementation) { return implementation.clip_value != nullptr; },
          [=](const Implementation& implementation, const Exec& exec, int set, const Operands& o) {
            copy(o);
            implementation.clip_value(exec, from_bits(clip_values[set]), o.output<float>(0));
            return false;
          },
          [=](int set, const Operands& o) {
            copy(o);
            oracle_clip_value(from_bits(clip_values[set]), o.output<float>(0).data(), o.size());
            return false;
          },
          [](int set) { return "limit" + hex(clip_values[set]); }};
}

inline Operation add_operation() {
  return {"add",
          DType::fp32,
          2,
          {DType::fp32},
          2,
          1,
          arithmetic_families(),
          [](const Implementation& implementation) { return implementation.add_nodes != nullptr; },
          [](const Implementation& implementation, const Exec& exec, int, const Operands& o) {
            implementation.add_nodes(exec, o.input<float>(0), o.input<float>(1),
                                     o.output<float>(0));
            return false;
          },
          [](int, const Operands& o) {
            oracle_add(o.input<float>(0).data(), o.input<float>(1).data(),
                       o.output<float>(0).data(), o.size());
            return false;
          },
          [](int) { return std::string(); }};
}

inline std::vector<Operation> simple_operations() {
  return {unscale_operation(), clip_operation(), clip_value_operation(), add_operation()};
}

}  // namespace zeroproof::oracle
