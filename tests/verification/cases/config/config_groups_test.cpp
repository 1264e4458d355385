#include <doctest.h>

#include <string>
#include <vector>

#include "tests/verification/cases/config/config_cases.hpp"

using namespace zeroproof;
using namespace zeroproof_test;

TEST_CASE("config: param groups keep their order, and a file replaces all of them") {
  const std::string two =
      "[[param_group]]\nname = \"a\"\nmatch = [\"x*\"]\nlr_mult = 2\n"
      "[[param_group]]\nname = \"b\"\nvectors = true\nlr = 0.5\nmin_lr = 0.25\n";
  RunConfig config = applied(two);
  REQUIRE(config.param_groups.size() == 2);
  const GroupRule& a = config.param_groups[0];
  const GroupRule& b = config.param_groups[1];
  CHECK(a.name == "a");
  CHECK(a.match == std::vector<std::string>{"x*"});
  CHECK_FALSE(a.vectors);
  CHECK(a.lr_mult == 2);
  CHECK(a.weight_decay_mult == 1);
  CHECK_FALSE(a.lr.has_value());
  CHECK_FALSE(a.min_lr.has_value());
  CHECK(b.name == "b");
  CHECK(b.match.empty());
  CHECK(b.vectors);
  CHECK(b.lr == 0.5);
  CHECK(b.min_lr == 0.25);
  apply_toml(config, "[run]\nsteps = 3", "some/file.toml");
  CHECK(config.param_groups.size() == 2);
  apply_toml(config, "[[param_group]]\nname = \"c\"\nvectors = true", "some/file.toml");
  REQUIRE(config.param_groups.size() == 1);
  CHECK(config.param_groups[0].name == "c");
  apply_toml(config, "param_group = []", "some/file.toml");
  CHECK(config.param_groups.empty());
}

TEST_CASE("config: clip groups keep their order, and a file replaces all of them") {
  const std::string two =
      "[[clip_group]]\nname = \"a\"\nmatch = [\"x*\", \"y\"]\n"
      "[[clip_group]]\nname = \"b\"\nvectors = true\nmax_norm = 0.25\n";
  RunConfig config = applied(two);
  REQUIRE(config.clip_groups.size() == 2);
  CHECK(config.clip_groups[0].name == "a");
  CHECK(config.clip_groups[0].match == std::vector<std::string>{"x*", "y"});
  CHECK_FALSE(config.clip_groups[0].vectors);
  CHECK_FALSE(config.clip_groups[0].max_norm.has_value());
  CHECK(config.clip_groups[1].name == "b");
  CHECK(config.clip_groups[1].vectors);
  CHECK(config.clip_groups[1].max_norm == 0.25);
  apply_toml(config, "[[clip_group]]\nname = \"c\"\nvectors = true", "some/file.toml");
  REQUIRE(config.clip_groups.size() == 1);
  apply_toml(config, "clip_group = []", "some/file.toml");
  CHECK(config.clip_groups.empty());
}

TEST_CASE("config: the schedule, key by key") {
  const ScheduleConfig s = applied(R"([schedule]
unit = "samples"
first_is_zero = true
warmup = 3
warmup_init_lr = 1e-6
warmup_shape = "log"
rates = [1e-3, 0, 0.1]
decay = "wsd"
decay_end = 90
min_lr = 1e-5
wsd_decay = 12
wsd_shape = "minus_sqrt"
weight_decay_ramp = "cosine"
weight_decay_begin = 0.5
weight_decay_end = 80)")
                               .schedule;
  CHECK(s.unit == ScheduleUnit::samples);
  CHECK(s.first_is_zero);
  CHECK(s.warmup == 3);
  CHECK(s.warmup_init_lr == 1e-6);
  CHECK(s.decay == DecayShape::wsd);
  CHECK(s.warmup_shape == WarmupShape::log);
  CHECK(s.rates == std::vector<double>{1e-3, 0, 0.1});
  CHECK(s.decay_end == 90);
  CHECK(s.min_lr == 1e-5);
  CHECK(s.wsd_decay == 12);
  CHECK(s.wsd_shape == WsdShape::minus_sqrt);
  CHECK(s.weight_decay_ramp == RampShape::cosine);
  CHECK(s.weight_decay_begin == 0.5);
  CHECK(s.weight_decay_end == 80);
}

TEST_CASE("config: words of an enumeration") {
  CHECK(parse_choice<GradSum>("--grad-sum", "binned") == GradSum::binned);
  CHECK(parse_choice<LayoutKind>("--layout", "contract") == LayoutKind::contract);
  CHECK(parse_choice<LayoutKind>("--layout", "greedy") == LayoutKind::greedy);
  const std::string text = complaint([] { parse_choice<LayoutKind>("--layout", "megatrom"); });
  CHECK(has(text, "--layout 'megatrom' does not exist"));
  CHECK(has(text, "did you mean \"megatron\"?"));
  CHECK(has(text, "\"fsdp2\" or \"greedy\""));
}

TEST_CASE("config: parameter dtypes") {
  CHECK(parse_param_dtype("fp32") == DType::fp32);
  CHECK(parse_param_dtype("bf16") == DType::bf16);
  CHECK(parse_param_dtype("fp16") == DType::fp16);
  for (const char* word : {"", "fp64", "u32", "FP32", "fp16 "})
    CHECK(complaint([&] { parse_param_dtype(word); }) != "");
}
