// The table of settings is complete, and a recipe with settings applies them.

#include "verification/cases/settings/setting.hpp"

#include <doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "tests/support/complaint.hpp"
#include "tests/support/paths.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/pairwise/axis.hpp"
#include "verification/cases/pairwise/space.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/cli/case_flags.hpp"

using namespace zeroproof;
using namespace zeroproof::verification;
using zeroproof_test::complaint;

namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(tests::source_folder() + "/" + path, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::set<std::string> found(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::set<std::string> all;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    all.insert((*match)[1]);
  }
  return all;
}

template <class Pairs>
std::set<std::string> firsts(const Pairs& pairs) {
  std::set<std::string> all;
  for (const auto& [first, second] : pairs) all.insert(first);
  return all;
}

RunConfig tiny(DType dtype) {
  RunConfig config = tiny_config();
  config.dtypes = {dtype};
  return config;
}

}  // namespace

TEST_CASE(
    "settings: every key of the configuration file belongs to a setting or is listed as none") {
  std::set<std::string> keys =
      found(content_of("verification/cases/config/config_toml.cpp") +
                content_of("verification/cases/config/config_groups_toml.cpp") +
                content_of("verification/cases/config/config_scaling_toml.cpp") +
                content_of("verification/cases/config/config_muon_toml.cpp"),
            "\"((?:run|offload|model|optimizer|loss_scaler|schedule|param_group|"
            "clip_group|scaling|muon|matrix_split)\\.[a-z0-9_]+)\"");
  keys.insert("param_group");
  keys.insert("clip_group");
  keys.insert("matrix_split");
  CHECK(keys.size() > 60);
  std::set<std::string> known = firsts(keys_without_values());
  for (const Axis& axis : axes()) known.insert(axis.keys.begin(), axis.keys.end());
  CHECK(known == keys);
  for (const std::string& key : firsts(keys_without_values())) {
    for (const Axis& axis : axes()) CHECK(std::ranges::find(axis.keys, key) == axis.keys.end());
  }
}

TEST_CASE("settings: every flag that selects cases belongs to a setting or is listed as none") {
  std::set<std::string> flags;
  for (const CaseFlag& flag : case_flags()) flags.insert(flag.name);
  std::set<std::string> known = firsts(flags_without_values());
  for (const Axis& axis : axes()) known.insert(axis.flags.begin(), axis.flags.end());
  CHECK(known == flags);
}

TEST_CASE("settings: a value that was set is the one that is read") {
  for (const Setting& setting : settings()) {
    for (const SettingValue& value : setting.values) {
      for (const SettingValue& before : setting.values) {
        CAPTURE(setting.name);
        CAPTURE(before.name);
        CAPTURE(value.name);
        RunConfig config = tiny(DType::fp16);
        before.set(config);
        value.set(config);
        int have = 0;
        for (const SettingValue& other : setting.values) have += other.is(config) ? 1 : 0;
        CHECK(have == 1);
        CHECK(value.is(config));
      }
    }
  }
}

TEST_CASE("settings: setting one keeps the others, in any order") {
  for (const Setting& late : settings()) {
    for (const SettingValue& value : late.values) {
      for (const Setting& early : settings()) {
        if (&early == &late) break;
        RunConfig config = tiny(DType::fp16);
        const SettingValue& kept = early.values.back();
        kept.set(config);
        value.set(config);
        CAPTURE(early.name);
        CAPTURE(late.name);
        CAPTURE(value.name);
        CHECK(kept.is(config));
      }
    }
  }
}

TEST_CASE("settings: after a recipe they are added to it, in any order") {
  const RunConfig config = under_recipe(tiny_config(), "sgd+norm:one+momentum:0+state:1001");
  CHECK(config.optimizer.rule == UpdateRule::sgd);
  CHECK(config.optimizer.norm == NormForm::one);
  CHECK(config.optimizer.momentum == 0);
  CHECK(config.initial_state == InitialState::seeded);
  CHECK(config.initial_step == 1001);
  const RunConfig other =
      under_recipe(tiny_config(), "adamw+decay:linear+state:16777217+schedule_unit:samples");
  CHECK(other.schedule.decay_end == (16777217 + 5) * other.micro_batches + 1);
  const RunConfig same =
      under_recipe(tiny_config(), "adamw+schedule_unit:samples+state:16777217+decay:linear");
  CHECK(same.schedule.decay_end == other.schedule.decay_end);
  CHECK(is_recipe("adamw+amsgrad:on"));
  CHECK_FALSE(is_recipe("adamv+amsgrad:on"));
  CHECK(shown_recipe("adamw") == "adamw");
  CHECK(shown_recipe("adamw+amsgrad:on") == "adamw+1");
  CHECK(shown_recipe("sgd+norm:one+momentum:0") == "sgd+2");
  CHECK_FALSE(recipe_allows("adamw-stochastic+amsgrad:on", DType::fp32));
}

TEST_CASE("settings: an unknown word is refused, and the valid ones are named") {
  const auto refused = [](const std::string& recipe) {
    return complaint([&] { under_recipe(tiny_config(), recipe); });
  };
  CHECK(refused("adamw+amsgrat:on").find("did you mean amsgrad?") != std::string::npos);
  CHECK(refused("adamw+stage:2").find("setting 'stage' does not exist") == 0);
  CHECK(refused("adamw+amsgrad:yes").find("value of the setting amsgrad 'yes' does not exist") ==
        0);
  CHECK(refused("adamw+amsgrad").find("setting 'amsgrad' has no value") == 0);
  CHECK(refused("adamw+").find("setting '' does not exist") == 0);
  CHECK(refused("adamw+amsgrad:on+amsgrad:off").find("setting 'amsgrad' has two values") == 0);
  CHECK(refused("nope+amsgrad:on").find("recipe 'nope' does not exist") == 0);
}

TEST_CASE("settings: the first step of a run") {
  const auto first = [](const std::string& toml) {
    RunConfig config = tiny_config();
    apply_toml(config, toml, "file");
    return Experiment("byte_gpt_tiny", config, DType::bf16, load_text(config));
  };
  const Experiment seven = first("");
  CHECK(seven.initial_state().applied_steps == 7);
  for (std::size_t i = 0; i < 9; ++i) CHECK(seven.initial_state().tensor_steps[i] == 1 + i % 7);
  const Experiment none = first("[run]\ninitial_state = \"zero\"\n");
  CHECK(none.initial_state().applied_steps == 0);
  for (std::size_t i = 0; i < 9; ++i) CHECK(none.initial_state().tensor_steps[i] == 0);
  const Experiment large = first("[run]\ninitial_step = 4000000000\n");
  CHECK(large.initial_state().applied_steps == 4'000'000'000);
  CHECK(large.initial_state().tensor_steps[0] == 3'999'999'994);
  CHECK(large.initial_state().tensor_steps[6] == 4'000'000'000);
  const Experiment third = first("[run]\ninitial_step = 3\n");
  CHECK(third.initial_state().tensor_steps[0] == 0);
  CHECK(third.initial_state().tensor_steps[6] == 3);
  for (const std::int64_t step : {std::int64_t{-2}, std::int64_t{4'000'000'001}}) {
    RunConfig config = tiny_config();
    config.initial_step = step;
    CHECK(complaint([&] { validate(config); }).find("run.initial_step is") == 0);
  }
}
