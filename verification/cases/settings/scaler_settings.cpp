// The loss scaler, which only fp16 has.

#include "verification/cases/settings/setting.hpp"

namespace zeroproof::verification {
namespace {

bool scaled(const RunConfig& c) { return c.dtypes.size() == 1 && c.dtypes.front() == DType::fp16; }

bool dynamic(const RunConfig& c) { return scaled(c) && c.scaler.kind == LossScalerKind::dynamic; }

bool too_high(const RunConfig& c) { return c.scaler.log2_initial >= 18; }

SettingValue kind(const std::string& name, LossScalerKind value) {
  return {name, [=](RunConfig& c) { c.scaler.kind = value; },
          [=](const RunConfig& c) { return c.scaler.kind == value; }};
}

/// high: too large for the gradients in fp16, so that the first step overflows and one backoff
/// leaves a usable scale.
Setting initial_scale() {
  return {"initial_scale",
          {"loss_scaler.initial_loss_scale", "loss_scaler.backoff_factor"},
          {{"fits",
            [](RunConfig& c) {
              c.scaler.log2_initial = 12;
              c.scaler.log2_backoff = 1;
            },
            [](const RunConfig& c) { return !too_high(c); }},
           {"too-high",
            [](RunConfig& c) {
              c.scaler.log2_initial = 22;
              c.scaler.log2_backoff = 12;
            },
            too_high}},
          dynamic};
}

/// low-max: growth stops at the initial scale, which is reached again after a backoff. high-min:
/// the first backoff stops at the minimum.
Setting limits() {
  const auto high_min = [](const RunConfig& c) {
    return c.scaler.log2_initial - c.scaler.log2_backoff < c.scaler.log2_min;
  };
  const auto low_max = [=](const RunConfig& c) {
    return !high_min(c) && c.scaler.log2_initial + c.scaler.log2_growth > c.scaler.log2_max;
  };
  const auto both = [](bool stops_backoff, bool stops_growth) {
    return [=](RunConfig& c) {
      c.scaler.log2_min = stops_backoff ? c.scaler.log2_initial - c.scaler.log2_backoff + 1 : 0;
      c.scaler.log2_max = stops_growth ? c.scaler.log2_initial : 40;
    };
  };
  return {"scale_limits",
          {"loss_scaler.min_loss_scale", "loss_scaler.max_loss_scale"},
          {{"wide", both(false, false),
            [=](const RunConfig& c) { return !high_min(c) && !low_max(c); }},
           {"low-max", both(false, true), low_max},
           {"high-min", both(true, false), high_min}},
          dynamic};
}

Setting refill() {
  const auto member = [](auto& c) -> auto& { return c.scaler.refill; };
  return these_values<decltype(member), HysteresisRefill>(
      "hysteresis_refill", "loss_scaler.hysteresis_refill", member,
      {{"growth", HysteresisRefill::growth}, {"good_step", HysteresisRefill::good_step}});
}

template <class Member>
Setting counted(const std::string& name, const std::string& key, Member member,
                const std::vector<std::pair<std::string, int>>& values) {
  Setting setting = these_values<Member, int>(name, "loss_scaler." + key, member, values);
  setting.applies = dynamic;
  return setting;
}

}  // namespace

std::vector<Setting> scaler_settings() {
  Setting kinds{"loss_scaler",
                {"loss_scaler.kind"},
                {kind("none", LossScalerKind::none), kind("constant", LossScalerKind::constant),
                 kind("dynamic", LossScalerKind::dynamic)},
                scaled};
  Setting refills = refill();
  // Two overflows use up the hysteresis; its refill has an effect only if no growth comes first.
  refills.applies = [](const RunConfig& c) {
    return dynamic(c) && c.scaler.hysteresis > 1 && too_high(c) &&
           c.scaler.growth_interval > c.steps;
  };
  return {kinds,
          initial_scale(),
          counted("growth_factor", "growth_factor",
                  [](auto& c) -> auto& { return c.scaler.log2_growth; }, {{"2", 1}, {"4", 2}}),
          limits(),
          counted("growth_interval", "growth_interval",
                  [](auto& c) -> auto& { return c.scaler.growth_interval; },
                  {{"1", 1}, {"2", 2}, {"100", 100}}),
          counted("hysteresis", "hysteresis", [](auto& c) -> auto& { return c.scaler.hysteresis; },
                  {{"1", 1}, {"2", 2}}),
          refills};
}

}  // namespace zeroproof::verification
