// zeroproof plan --json: what plan.schema.json and owners.schema.json say, and they say enough.

#include <doctest.h>

#include <map>
#include <set>

#include "common/layout/peer_layouts.hpp"
#include "common/step/memory_use.hpp"
#include "common/step/policy.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/cli/every_object.hpp"
#include "tests/verification/cli/json_schema.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using Values = nlohmann::json;

/// A folder with a model that tensor parallelism can cut.
struct Models {
  TemporaryFolder folder;
  std::string cut = folder.write("cut.toml",
                                 "[[tensor]]\nname = \"block{i}.up\"\nshape = [64, 640]\ntp = 1\nrepeat = 3\n"
                                 "[[tensor]]\nname = \"norm\"\nshape = [64]\n");
};

Values schema_text(const std::string& file) {
  return Values::parse(read_file(source_folder() + "/verification/tools/plan/" + file));
}

Values planned(const Models& models, const std::string& flags) {
  const std::string out = models.folder.file("plan.json");
  const CliResult result = run_cli("plan " + flags + " --json " + quoted(out));
  CAPTURE(flags);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return Values::parse(read_file(out));
}

/// Each member of each object is taken away, given another type, and joined by an unheard-of one.
void expect_strict(const JsonSchema& schema, const Values& whole, std::size_t objects,
                   const std::string& optional = "") {
  const Values document = shortened(whole);
  REQUIRE(schema.complaint(document) == "");
  std::vector<Values::json_pointer> places;
  collect_objects(document, Values::json_pointer(), places);
  CHECK(places.size() == objects);
  for (const Values::json_pointer& at : places) {
    const std::string place = at.to_string();
    CAPTURE(place);
    Values more = document;
    more.at(at)["unheard_of"] = 1;
    CHECK_FALSE(schema.complaint(more).empty());
    for (const auto& item :
         document.at(at).items()) {  // clang does not let a lambda have structured bindings
      const std::string& name = item.key();
      const Values& value = item.value();
      CAPTURE(name);
      Values less = document;
      less.at(at).erase(name);
      CHECK(schema.complaint(less).empty() == (name == optional));
      Values other = document;
      other.at(at)[name] = value.is_array() ? Values("text") : Values::array();
      CHECK_FALSE(schema.complaint(other).empty());
    }
  }
}

using Seen = std::map<std::string, std::set<std::string>>;

/// The texts that every line of traffic has, by member.
void see_lines(const Values& plan, Seen& seen) {
  for (const Values& stage : plan.at("stages")) {
    for (const char* const rank : {"smallest", "largest"}) {
      for (const Values& line : stage.at(rank).at("traffic")) {
        for (const auto& [name, value] : line.items()) {
          if (value.is_string()) seen[name].insert(value.get<std::string>());
        }
      }
    }
  }
}

std::set<std::string> texts(const Values& list) { return list.get<std::set<std::string>>(); }

template <class Choice>
std::set<std::string> names(Choice choice) {
  std::set<std::string> all;
  for (const std::string_view name : names_of(choice)) all.emplace(name);
  return all;
}

}  // namespace

TEST_CASE("a plan is what its schema says, for grids, stages, devices, windows, rules and what is measured") {
  const Models models;
  const JsonSchema schema(schema_text("plan.schema.json"));
  Seen seen;
  const std::string cut = quoted(models.cut);
  for (const std::string& flags :
       {std::string("byte_gpt_tiny"),
        std::string("byte_gpt_tiny --stage 3 --grid 3x1x1 --dtype fp16 --grad-dtype fp16"),
        std::string(
            "byte_gpt_tiny --grid 4x2x1 --rule sgd --momentum 0.9 --measure --count deepspeed,claims"),
        std::string("byte_gpt_tiny --grid 4x1x1 --instances 2 --micro-batches 7 --order strided --measure"),
        std::string("byte_gpt --grid 8x1x1 --space device --offload 0.5 --offload-place file"),
        std::string("byte_gpt --grid 8x1x1 --rule lion --space device --alpha 0.5 --beta 25 --memory 2000"),
        std::string("byte_gpt --grid 64x1x1 --windows on --dtype fp32 --count megatron"),
        cut + " --grid 2x2x4 --stage 1 --rule adam --clip-groups 3", cut + " --grid 16x1x8 --instances 4",
        cut + " --grid 5x1x1 --windows params --bucket 1024 --rule sgd_ema --grad-dtype bf16 --order "
              "contiguous"}) {
    const Values plan = planned(models, flags);
    CHECK(schema.complaint(plan) == "");
    CHECK(plan.at("stages").at(0).contains("measured") == (flags.find("--measure") != std::string::npos));
    see_lines(plan, seen);
  }
  const Values line = schema_text("plan.schema.json").at("$defs").at("line").at("properties");
  for (const char* const member : {"phase", "over", "collective", "of"}) {
    CAPTURE(member);
    CHECK(seen[member] == texts(line.at(member).at("enum")));  // and no name that no plan has
  }
}

TEST_CASE("no member of a plan can go, change its type or be joined by another") {
  const Models models;
  const JsonSchema schema(schema_text("plan.schema.json"));
  const Values plan = planned(models, "byte_gpt_tiny --stage 1 --grid 2x1x1 --measure");
  expect_strict(schema, plan, 26, "measured");
  const auto complaint_with = [&](const char* at, const Values& value) {
    Values wrong = plan;
    wrong[Values::json_pointer(at)] = value;
    return schema.complaint(wrong);
  };
  CHECK(complaint_with("/schema", "zeroproof-plan/2") == "report.schema is not \"zeroproof-plan/1\"");
  CHECK(complaint_with("/settings/grid", "2x1") == "report.settings.grid is \"2x1\"");
  CHECK(complaint_with("/stages/0/stage", 4) == "report.stages[0].stage is above 3");
  CHECK(complaint_with("/stages/0/largest/peak/grad", -4) == "report.stages[0].largest.peak.grad is below 0");
  CHECK(complaint_with("/stages/0/largest/traffic/0/of", "gossip") ==
        "report.stages[0].largest.traffic[0].of is \"gossip\"");
}

TEST_CASE("owners are what their schema says, in every layout, and none of it can go") {
  const Models models;
  const JsonSchema schema(schema_text("owners.schema.json"));
  for (const std::string_view layout : names_of(LayoutKind{})) {
    const std::string flags = "byte_gpt_tiny --owners --grid 3x1x1 --layout " + std::string(layout);
    CHECK(schema.complaint(planned(models, flags)) == "");
  }
  CHECK(schema.complaint(planned(models, quoted(models.cut) + " --owners --grid 4x1x2 --rank 3")) == "");
  expect_strict(schema, planned(models, "byte_gpt_tiny --owners --grid 2x1x1"), 6);
}

TEST_CASE("names in the schemas are those of the program") {
  const Values defs = schema_text("plan.schema.json").at("$defs");
  const Values& settings = defs.at("settings").at("properties");
  CHECK(texts(settings.at("rule").at("enum")) == names(UpdateRule{}));
  CHECK(texts(settings.at("order").at("enum")) == names(MicroBatchOrder{}));
  CHECK(texts(settings.at("windows").at("enum")) == names(Windows{}));
  CHECK(defs.at("classes").at("required").size() == num_memory_classes);
  const Values owners = schema_text("owners.schema.json").at("$defs").at("owners").at("properties");
  CHECK(texts(owners.at("settings").at("properties").at("layout").at("enum")) == names(LayoutKind{}));
}
