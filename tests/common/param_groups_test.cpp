#include "common/step/param_groups.hpp"

#include <doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/complaint.hpp"

namespace param_groups_test {

using namespace zeroproof;
using namespace zeroproof_test;

namespace {

/// A block of a transformer, a scalar and a tensor without elements, as a model might register them.
FlatLayout model() {
  return FlatLayout({{"embed.weight", {256, 15}},
                     {"block0.attn.weight", {15, 45}},
                     {"block0.attn.bias", {45}},
                     {"block0.norm.gain", {15}},
                     {"head.weight", {15, 256}},
                     {"temperature", {}},
                     {"unused", {0}}});
}

GroupRule rule(const std::string& name, const std::vector<std::string>& match) {
  GroupRule r;
  r.name = name;
  r.match = match;
  return r;
}

GroupRule no_decay() {
  GroupRule r = rule("no_decay", {});
  r.vectors = true;
  r.weight_decay_mult = 0;
  return r;
}

std::vector<int> groups_of(const std::vector<GroupRule>& rules) {
  return make_param_groups(rules, {}, model()).of_tensor;
}

/// True if a rule with only this glob matches the tensor.
bool takes(const std::string& glob, const std::string& tensor) {
  const FlatLayout layout({{tensor, {2}}});
  try {
    return make_param_groups({rule("g", {glob})}, {}, layout).of(0) == 1;
  } catch (const Error& error) {
    CHECK(has(error.what(), "matches no tensor"));
    return false;
  }
}

std::string judged(const std::vector<GroupRule>& rules, const ScheduleConfig& schedule = {}) {
  return complaint([&] { make_param_groups(rules, schedule, model()); });
}

/// Everything but lr and weight_decay.
auto others(const OptimizerHyper& o) {
  return std::tuple(o.rule, o.beta1, o.beta2, o.eps, o.bias_correction, o.amsgrad, o.maximize,
                    o.momentum, o.dampening, o.nesterov, o.norm, o.max_norm, o.clip_value);
}

std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

}  // namespace

TEST_CASE("param_groups: without rules there is one group with the optimizer's own bits") {
  const ParamGroups groups = make_param_groups({}, {}, model());
  CHECK(groups.count() == 1);
  CHECK(groups.of_tensor.empty());
  CHECK(groups.of(6) == 0);
  OptimizerHyper hyper;
  hyper.rule = UpdateRule::adam;
  hyper.amsgrad = true;
  hyper.lr = 0.1;
  hyper.weight_decay = 0.3;
  hyper.max_norm = 0.7;
  hyper.clip_value = 5;
  for (const std::int64_t t : {1, 2, 1000}) {
    const OptimizerHyper got = hyper_of(groups, hyper, 0, t, 16);
    CHECK(bits(got.lr) == bits(0.1));
    CHECK(bits(got.weight_decay) == bits(0.3));
    CHECK(others(got) == others(hyper));
  }
}

TEST_CASE("param_groups: biases, gains and scalars in a group without decay") {
  CHECK(groups_of({no_decay()}) == std::vector<int>{0, 0, 1, 1, 0, 1, 1});
  const ParamGroups groups = make_param_groups({no_decay()}, {}, model());
  OptimizerHyper hyper;
  hyper.weight_decay = 0.25;
  CHECK(hyper_of(groups, hyper, 1, 1, 1).weight_decay == 0);
  CHECK(hyper_of(groups, hyper, 1, 1, 1).lr == hyper.lr);
  CHECK(hyper_of(groups, hyper, 0, 1, 1).weight_decay == 0.25);
}

TEST_CASE("param_groups: the first rule that matches wins") {
  CHECK(groups_of({rule("ends", {"embed.*", "head.*"}), no_decay()}) ==
        std::vector<int>{1, 0, 2, 2, 1, 2, 2});
  CHECK(groups_of({no_decay(), rule("block", {"block0.*"})}) ==
        std::vector<int>{0, 2, 1, 1, 0, 1, 1});
  CHECK(groups_of({rule("block", {"block0.*"}), no_decay()}) ==
        std::vector<int>{0, 1, 1, 1, 0, 2, 2});
  GroupRule both = rule("both", {"head.weight"});
  both.vectors = true;
  CHECK(groups_of({both}) == std::vector<int>{0, 0, 1, 1, 1, 1, 1});
}

TEST_CASE("param_groups: globs match whole names") {
  const std::tuple<const char*, const char*, bool> cases[] = {
      {"abc", "abc", true},   {"abc", "abcd", false},     {"abc", "ab", false},
      {"bc", "abc", false},   {"a?c", "abc", true},       {"a?c", "ac", false},
      {"???", "abc", true},   {"????", "abc", false},     {"*", "abc", true},
      {"*", "a", true},       {"a*", "abc", true},        {"a*", "a", true},
      {"*c", "abc", true},    {"*b", "abc", false},       {"a*c", "ac", true},
      {"a*c", "abcbc", true}, {"*b*", "abc", true},       {"**", "abc", true},
      {"a**c", "abc", true},  {"*.bias", "x.bias", true}, {"*.bias", "bias", false},
      {"a.c", "abc", false},  {"[ab]c", "ac", false},     {"*ab", "aab", true},
      {"*a?b", "aacb", true}, {"?*", "a", true},          {"*?", "abc", true},
      {"", "a", false},       {"a*b*c", "aXbYbZc", true}, {"a*b*c", "aXcYb", false},
      {"ABC", "abc", false},  {"*aab*", "aaab", true},
  };
  for (const auto& one : cases) {
    const std::string glob = std::get<0>(one);
    const std::string tensor = std::get<1>(one);
    CAPTURE(glob);
    CAPTURE(tensor);
    CHECK(takes(glob, tensor) == std::get<2>(one));
  }
  std::string stars;
  for (int i = 0; i < 200; ++i) stars += "a*";
  CHECK_FALSE(takes(stars + "b", std::string(4000, 'a')));  // linear in time
}

TEST_CASE("param_groups: rates of a group, scheduled") {
  ScheduleConfig schedule;
  schedule.decay = DecayShape::linear;
  schedule.decay_end = 4;
  schedule.min_lr = 0.25;
  schedule.weight_decay_ramp = RampShape::linear;
  schedule.weight_decay_begin = 0.5;
  schedule.weight_decay_end = 4;
  GroupRule scaled = rule("scaled", {"embed.*"});
  scaled.lr_mult = 3;
  scaled.weight_decay_mult = 2;
  GroupRule own = rule("own", {"head.*"});
  own.lr = 2;
  own.min_lr = 0.5;
  GroupRule floor = rule("floor", {"*"});
  floor.min_lr = 0.75;
  const ParamGroups groups = make_param_groups({scaled, own, floor}, schedule, model());
  CHECK(groups.count() == 4);
  OptimizerHyper hyper;
  hyper.lr = 1;
  hyper.weight_decay = 1;
  const auto lr = [&](int group, std::int64_t t) {
    return hyper_of(groups, hyper, group, t, 16).lr;
  };
  CHECK(lr(0, 2) == 0.625);
  CHECK(lr(1, 2) == 3 * 0.625);  // the floor is multiplied too
  CHECK(lr(1, 5) == 3 * 0.25);
  CHECK(lr(2, 2) == 0.5 + 0.5 * 1.5);
  CHECK(lr(2, 5) == 0.5);
  CHECK(lr(3, 2) == 0.75 + 0.5 * 0.25);
  CHECK(hyper_of(groups, hyper, 0, 2, 16).weight_decay == 0.75);
  CHECK(hyper_of(groups, hyper, 1, 2, 16).weight_decay == 1.5);
  CHECK(others(hyper_of(groups, hyper, 1, 2, 16)) == others(hyper));
  ParamGroups samples = groups;
  samples.schedule.unit = ScheduleUnit::samples;
  CHECK(hyper_of(samples, hyper, 0, 1, 2).lr == 0.625);  // one step of two micro-batches
  samples.schedule.first_is_zero = true;
  CHECK(hyper_of(samples, hyper, 0, 1, 2).lr == 1.0);
}

TEST_CASE("param_groups: hyper_of rejects groups and steps that do not exist") {
  const ParamGroups groups = make_param_groups({no_decay()}, {}, model());
  const auto refused = [&](int group, std::int64_t t, std::int64_t micro_batches) {
    try {
      hyper_of(groups, {}, group, t, micro_batches);
    } catch (const Error& error) {
      return error.code() == ErrorCode::invalid_argument;
    }
    return false;
  };
  CHECK(refused(-1, 1, 1));
  CHECK(refused(2, 1, 1));
  CHECK(refused(0, 0, 1));
  CHECK(refused(1, -5, 1));
  CHECK(refused(1, 1, 0));
  CHECK_FALSE(refused(1, 1, 1));
}

TEST_CASE("param_groups: invalid rules are rejected") {
  CHECK(has(judged({rule("", {"*"})}), "has no name"));
  CHECK(has(judged({rule("a", {"embed.*"}), rule("a", {"head.*"})}), "have the name 'a'"));
  CHECK(has(judged({rule("a", {})}), "neither match nor vectors"));
  CHECK(has(judged({rule("a", {"Embed.*", "embed"})}), "'a' matches no tensor"));
  CHECK(has(judged({rule("a", {"*"}), rule("b", {"head.*"})}), "'b' gets no tensor"));
  CHECK(judged({rule("a", {"embed.*", "nowhere"}), rule("b", {"head.*"})}).empty());
  const auto with = [](const auto& change) {
    GroupRule r = rule("a", {"*"});
    change(r);
    return judged({r});
  };
  for (const double bad : {-1e-9, std::numeric_limits<double>::infinity(), std::nan("")}) {
    CHECK(has(with([&](GroupRule& r) { r.lr_mult = bad; }), "lr_mult is"));
    CHECK(has(with([&](GroupRule& r) { r.weight_decay_mult = bad; }), "weight_decay_mult is"));
    CHECK(has(with([&](GroupRule& r) { r.lr = bad; }), ": lr is"));
    CHECK(has(with([&](GroupRule& r) { r.min_lr = bad; }), "min_lr is"));
  }
  CHECK(with([](GroupRule& r) { r.lr_mult = r.weight_decay_mult = 0, r.min_lr = 0; }).empty());
  CHECK(has(with([](GroupRule& r) { r.lr = 1, r.lr_mult = 2; }), "both lr and lr_mult"));
  CHECK(
      with([](GroupRule& r) { r.lr = 1, r.min_lr = 2; }).empty());  // a constant rate has no floor
  ScheduleConfig schedule;
  schedule.decay = DecayShape::exponential;
  schedule.decay_end = 10;
  schedule.min_lr = 0.1;
  GroupRule r = rule("a", {"*"});
  CHECK(judged({r}, schedule).empty());
  r.min_lr = 0;
  CHECK(has(judged({r}, schedule), "never reaches 0"));
  r.min_lr = 2;
  r.lr = 1;
  CHECK(has(judged({r}, schedule), "below its min_lr"));
  r.min_lr = std::nullopt;
  r.lr = 0.05;
  CHECK(has(judged({r}, schedule), "below its min_lr"));
  r.lr = 0.1;
  CHECK(judged({r}, schedule).empty());
  schedule.warmup = 10;
  CHECK(has(judged({}, schedule), "is not after"));
}

}  // namespace param_groups_test
