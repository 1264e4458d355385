// Options of the update rules, norms and clipping.

#include <algorithm>

#include "verification/cases/settings/setting.hpp"

namespace zeroproof::verification {
namespace {

bool second_moment(const RunConfig& c) {
  return traits_of(c.optimizer.rule).keeps[StateSlot::exp_avg_sq];
}

bool takes_momentum(const RunConfig& c) {
  const RuleTraits& rule = traits_of(c.optimizer.rule);
  return rule.momentum() || rule.matrices;
}

bool has_momentum(const RunConfig& c) { return takes_momentum(c) && c.optimizer.momentum != 0; }

bool sgd_with_momentum(const RunConfig& c) {
  return c.optimizer.rule == UpdateRule::sgd && has_momentum(c);
}

/// A norm slightly below that of the first gradients of byte_gpt_tiny, so that clipping binds in
/// some steps only.
double near_norm(const RunConfig& c) {
  switch (c.optimizer.norm) {
    case NormForm::inf:
      return 0.1;
    case NormForm::one:
      return 13;
    default:
      return 0.52;
  }
}

Setting norm() {
  Setting setting = every_choice(
      "norm", "optimizer.norm", [](auto& c) -> auto& { return c.optimizer.norm; });
  for (SettingValue& value : setting.values) {
    value.set = [set = value.set](RunConfig& c) {
      const double share = c.optimizer.max_norm.value_or(0) / near_norm(c);
      set(c);
      if (c.optimizer.max_norm)
        c.optimizer.max_norm = share * near_norm(c);  // binds as often as before
    };
  }
  return setting;
}

/// near: slightly below the first norms. low: every step is clipped.
Setting max_norm() {
  const auto limit = [](const RunConfig& c) { return c.optimizer.max_norm.value_or(0); };
  Setting setting = {
      "max_norm",
      {"optimizer.max_norm"},
      {{"none", [](RunConfig& c) { c.optimizer.max_norm.reset(); },
        [=](const RunConfig& c) { return limit(c) == 0; }},
       {"near", [](RunConfig& c) { c.optimizer.max_norm = 0.75 * near_norm(c); },
        [=](const RunConfig& c) { return limit(c) > 0.1 * near_norm(c); }},
       {"low", [](RunConfig& c) { c.optimizer.max_norm = 0.03 * near_norm(c); },
        [=](const RunConfig& c) { return limit(c) != 0 && limit(c) <= 0.1 * near_norm(c); }}}};
  setting.always_set = true;
  return setting;
}

/// Some tensors have a separate norm and a limit: far below it (binds in every step), or that of
/// the run and none.
Setting clip_groups() {
  const auto is = [](const RunConfig& c, std::size_t groups) {
    return c.clip_groups.size() == groups;
  };
  const auto up = [](const RunConfig& c) {
    return ClipGroupRule{"up", {"*.mlp.up.*"}, false, 0.01 * near_norm(c)};
  };
  return {"clip_groups",
          {"clip_group.name", "clip_group.match", "clip_group.vectors", "clip_group.max_norm",
           "clip_group"},
          {{"one", [](RunConfig& c) { c.clip_groups.clear(); },
            [=](const RunConfig& c) { return is(c, 0); }},
           {"two", [=](RunConfig& c) { c.clip_groups = {up(c)}; },
            [=](const RunConfig& c) { return is(c, 1); }},
           {"four",
            [=](RunConfig& c) {
              c.clip_groups = {
                  up(c), {"vectors", {}, true, {}}, {"free", {"*.attention.*"}, false, 0.0}};
            },
            [=](const RunConfig& c) { return c.clip_groups.size() > 1; }}}};
}

Setting clip_value() {
  return {"clip_value",
          {"optimizer.clip_value"},
          {{"none", [](RunConfig& c) { c.optimizer.clip_value.reset(); },
            [](const RunConfig& c) { return !c.optimizer.clip_value; }},
           {"on", [](RunConfig& c) { c.optimizer.clip_value = 1e-3; },
            [](const RunConfig& c) { return c.optimizer.clip_value.has_value(); }}}};
}

/// One value, and the rule's default.
template <class Member>
Setting own_or(const std::string& name, Member member, const std::string& label, double own,
               double other) {
  return {
      name,
      {"optimizer." + name},
      {{"own",
        [=](RunConfig& c) {
          member(c) = static_cast<std::remove_reference_t<decltype(member(c))>>(own);
        },
        [=](const RunConfig& c) {
          return static_cast<double>(member(c)) !=
                 static_cast<double>(static_cast<std::remove_cvref_t<decltype(member(c))>>(other));
        }},
       {label,
        [=](RunConfig& c) {
          member(c) = static_cast<std::remove_reference_t<decltype(member(c))>>(other);
        },
        [=](const RunConfig& c) {
          return static_cast<double>(member(c)) ==
                 static_cast<double>(static_cast<std::remove_cvref_t<decltype(member(c))>>(other));
        }}}};
}

}  // namespace

std::vector<Setting> optimizer_settings() {
  const auto any_beta1 = [](const RunConfig& c) { return c.optimizer.rule != UpdateRule::sgd; };
  const auto any_beta2 = [](const RunConfig& c) {
    return second_moment(c) || c.optimizer.rule == UpdateRule::lion;
  };
  Setting momentum = zero_or(
      "momentum", "optimizer.momentum", [](auto& c) -> auto& { return c.optimizer.momentum; }, 0.9);
  momentum.values.front().set = [set = momentum.values.front().set](RunConfig& c) {
    set(c);
    c.optimizer.nesterov = false;  // it needs momentum
  };
  return {
      where(any_beta1,
            own_or(
                "beta1", [](auto& c) -> auto& { return c.optimizer.beta1; }, "0", 0.9, 0)),
      where(any_beta2,
            own_or(
                "beta2", [](auto& c) -> auto& { return c.optimizer.beta2; }, "half", 0.95, 0.5)),
      where(second_moment,
            own_or(
                "eps", [](auto& c) -> auto& { return c.optimizer.eps; }, "large", 1e-8, 1e-3)),
      zero_or(
          "weight_decay", "optimizer.weight_decay",
          [](auto& c) -> auto& { return c.optimizer.weight_decay; }, 0.01),
      where(second_moment, off_and_on(
                               "bias_correction", "optimizer.bias_correction",
                               [](auto& c) -> auto& { return c.optimizer.bias_correction; })),
      where([](const RunConfig& c) { return traits_of(c.optimizer.rule).amsgrad(); },
            off_and_on(
                "amsgrad", "optimizer.amsgrad",
                [](auto& c) -> auto& { return c.optimizer.amsgrad; })),
      off_and_on(
          "maximize", "optimizer.maximize", [](auto& c) -> auto& { return c.optimizer.maximize; }),
      where(takes_momentum, momentum),
      where(sgd_with_momentum, zero_or(
                                   "dampening", "optimizer.dampening",
                                   [](auto& c) -> auto& { return c.optimizer.dampening; }, 0.5)),
      where(has_momentum, off_and_on(
                              "nesterov", "optimizer.nesterov",
                              [](auto& c) -> auto& { return c.optimizer.nesterov; })),
      norm(),
      clip_value(),
      max_norm(),
      clip_groups()};
}

}  // namespace zeroproof::verification
