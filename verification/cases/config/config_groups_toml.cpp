// Keys of [schedule], [[param_group]] and [[clip_group]] (R20, R5, R12).

#include <cstdint>

#include "verification/cases/config/toml_value.hpp"

namespace zeroproof {
namespace {

std::int64_t length(const Value& v) { return v.integer(INT64_MIN, INT64_MAX); }

}  // namespace

Keys<RunConfig> schedule_keys() {
  return {
      {"schedule.unit",
       [](RunConfig& c, const Value& v) { c.schedule.unit = choice<ScheduleUnit>(v); }},
      {"schedule.first_is_zero",
       [](RunConfig& c, const Value& v) { c.schedule.first_is_zero = v.boolean(); }},
      {"schedule.warmup", [](RunConfig& c, const Value& v) { c.schedule.warmup = length(v); }},
      {"schedule.warmup_init_lr",
       [](RunConfig& c, const Value& v) { c.schedule.warmup_init_lr = v.number(); }},
      {"schedule.warmup_shape",
       [](RunConfig& c, const Value& v) { c.schedule.warmup_shape = choice<WarmupShape>(v); }},
      {"schedule.rates",
       [](RunConfig& c, const Value& v) {
         c.schedule.rates = v.list<double>([](const Value& item) { return item.number(); }, true);
       }},
      {"schedule.decay",
       [](RunConfig& c, const Value& v) { c.schedule.decay = choice<DecayShape>(v); }},
      {"schedule.decay_end",
       [](RunConfig& c, const Value& v) { c.schedule.decay_end = length(v); }},
      {"schedule.min_lr", [](RunConfig& c, const Value& v) { c.schedule.min_lr = v.number(); }},
      {"schedule.wsd_decay",
       [](RunConfig& c, const Value& v) { c.schedule.wsd_decay = length(v); }},
      {"schedule.wsd_shape",
       [](RunConfig& c, const Value& v) { c.schedule.wsd_shape = choice<WsdShape>(v); }},
      {"schedule.weight_decay_ramp",
       [](RunConfig& c, const Value& v) { c.schedule.weight_decay_ramp = choice<RampShape>(v); }},
      {"schedule.weight_decay_begin",
       [](RunConfig& c, const Value& v) { c.schedule.weight_decay_begin = v.number(); }},
      {"schedule.weight_decay_end",
       [](RunConfig& c, const Value& v) { c.schedule.weight_decay_end = length(v); }},
  };
}

Keys<GroupRule> param_group_keys() {
  return {
      {"param_group.name", [](GroupRule& g, const Value& v) { g.name = v.string(); }},
      {"param_group.match",
       [](GroupRule& g, const Value& v) {
         g.match = v.list<std::string>([](const Value& item) { return item.string(); }, true);
       }},
      {"param_group.vectors", [](GroupRule& g, const Value& v) { g.vectors = v.boolean(); }},
      {"param_group.lr_mult", [](GroupRule& g, const Value& v) { g.lr_mult = v.number(); }},
      {"param_group.weight_decay_mult",
       [](GroupRule& g, const Value& v) { g.weight_decay_mult = v.number(); }},
      {"param_group.lr", [](GroupRule& g, const Value& v) { g.lr = v.number(); }},
      {"param_group.min_lr", [](GroupRule& g, const Value& v) { g.min_lr = v.number(); }},
  };
}

Keys<ClipGroupRule> clip_group_keys() {
  return {
      {"clip_group.name", [](ClipGroupRule& g, const Value& v) { g.name = v.string(); }},
      {"clip_group.match",
       [](ClipGroupRule& g, const Value& v) {
         g.match = v.list<std::string>([](const Value& item) { return item.string(); }, true);
       }},
      {"clip_group.vectors", [](ClipGroupRule& g, const Value& v) { g.vectors = v.boolean(); }},
      {"clip_group.max_norm", [](ClipGroupRule& g, const Value& v) { g.max_norm = v.number(); }},
  };
}

}  // namespace zeroproof
