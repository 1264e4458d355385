// Recordings that cannot be used, and the command.

#include <doctest.h>

#include <filesystem>
#include <functional>

#include "common/base/error.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/tools/judge_run/simulated_run.hpp"
#include "verification/tools/judge_run/judge_run.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using namespace zeroproof::tests;

using Files = std::map<std::string, SimulatedFile>;
const std::string rank0 = "step000001.rank0.safetensors";
const std::string rank1 = "step000001.rank1.safetensors";

/// The object with one member replaced, or removed if there is no value.
Json with(const Json& object, const std::string& key, const std::optional<Json>& value) {
  Json changed = Json::object();
  bool found = false;
  for (const Json::Member& member : object.members()) {
    if (member.name != key) changed[member.name] = member.value;
    if (member.name == key && value) changed[member.name] = *value;
    found = found || member.name == key;
  }
  if (!found && value) changed[key] = *value;
  return changed;
}

Json with_item(const Json& list, std::size_t at, const Json& item) {
  Json changed = Json::array();
  std::size_t i = 0;
  for (const Json& old : list) changed.push_back(i++ == at ? item : old);
  return changed;
}

void set(SimulatedFile& file, const std::string& key, const std::optional<Json>& value) {
  file.metadata = with(file.metadata, key, value);
}

void set_parameter(SimulatedFile& file, std::size_t p, const std::string& key,
                   const std::optional<Json>& value) {
  const Json list = file.metadata.at("parameters");
  set(file, "parameters", with_item(list, p, with(list.begin()[p], key, value)));
}

void set_group(SimulatedFile& file, const std::string& key, const std::optional<Json>& value) {
  const Json list = file.metadata.at("groups");
  set(file, "groups", with_item(list, 0, with(list.begin()[0], key, value)));
}

Json blocks(const std::vector<std::vector<std::int64_t>>& all) {
  Json list = Json::array();
  for (const auto& block : all) list.push_back(Json(block));
  return list;
}

/// The refusal of a changed recording of one step.
std::string refusal(const std::function<void(Files&)>& change) {
  Simulation run;
  run.steps = 1;
  Files files = run.files();
  change(files);
  const TemporaryFolder folder;
  for (const auto& [name, file] : files) write_file(folder.file(name), file);
  JudgeRunSettings settings;
  settings.folder = folder.file("");
  try {
    judge_run(settings);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::io);
    const std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    CHECK(text.find(" (") < text.find("; "));
    return text;
  }
  return "no refusal";
}

void expect_refused(const std::string& mention, const std::function<void(Files&)>& change) {
  const std::string text = refusal(change);
  CAPTURE(text);
  CAPTURE(mention);
  CHECK(text.find(mention) != std::string::npos);
}

}  // namespace

TEST_CASE("metadata of a recording is checked completely") {
  for (const char* key : {"version", "program", "rank", "world", "step", "micro_batches",
                          "reduction", "applied", "groups", "parameters"}) {
    CAPTURE(key);
    expect_refused(std::string("has no '") + key + "'",
                   [&](Files& files) { set(files[rank1], key, std::nullopt); });
  }
  const auto value = [](const std::string& key, const Json& value, const std::string& mention) {
    expect_refused(mention, [&](Files& files) { set(files[rank1], key, value); });
  };
  value("versoin", 1, "did you mean version?");
  value("version", 2, "version is '2'");
  value("version", "1", "version is");
  value("rank", 2, "rank is");
  value("rank", 0, "its name says otherwise");
  value("world", 1e300, "world is");
  value("world", 0, "world is");
  value("world", 3, "a step is judged over all ranks");
  value("world", 4097, "world is");
  value("step", -1, "step is");
  value("step", 2, "its name says otherwise");
  value("micro_batches", 1.5, "micro_batches is");
  value("micro_batches", 18446744073709551615U, "micro_batches is");
  value("micro_batches", 3, "there is no tensor 'leaf.2.");
  value("reduction", "avg", "reduction is");
  value("reduction", "sum", "reduction is not that of rank 0");
  value("loss_scale", 0, "loss_scale is");
  value("loss_scale", "nan", "loss_scale is");
  value("applied", 1, "applied is");
  value("max_norm", "inf", "max_norm is");
  value("max_norm", 2, "max_norm is not that of rank 0");
  value("norm", "big", "norm is");
  value("norm_type", -2, "norm_type is");
  value("clip_eps", -1, "clip_eps is");
  value("groups", 3, "groups is");
  value("parameters", Json::object(), "parameters is");
  expect_refused("number of parameters is not that of rank 0", [](Files& files) {
    set(files[rank1], "parameters", Json::array());
    files[rank1].tensors.clear();
  });
}

TEST_CASE("groups and parameters of a recording are checked completely") {
  const auto of_group = [](const std::string& key, const std::optional<Json>& value,
                           const std::string& mention) {
    expect_refused(mention, [&](Files& files) { set_group(files[rank0], key, value); });
  };
  of_group("rule", "adamv", "did you mean adamw?");
  expect_refused("groups is '[]'",
                 [](Files& files) { files[rank0].metadata["groups"] = Json::array(); });
  of_group("lr", std::nullopt, "has no 'lr'");
  of_group("lr", "0.1", "lr is");
  of_group("lr", -1, "lr is");
  of_group("momentum", 0.9, "momentum is no setting of adamw");
  of_group("learning_rate", 1, "is no setting of a step");
  of_group("t", 1, "has the key t");
  const auto of_parameter = [](const std::string& key, const std::optional<Json>& value,
                               const std::string& mention) {
    expect_refused(mention, [&](Files& files) { set_parameter(files[rank1], 0, key, value); });
  };
  expect_refused("the name of parameter 0 is not that of rank 0", [](Files& files) {
    set_parameter(files[rank1], 0, "name", "other");
    std::erase_if(files[rank1].tensors,
                  [](const auto& t) { return t.first.ends_with("wte.weight"); });
  });
  of_parameter("name", "", "its name is");
  of_parameter("name", "a\x1b[31m", "its name is");
  of_parameter("name", "scale", "two parameters are 'scale'");
  of_parameter("shape", Json(std::vector<std::int64_t>{-1}), "shape is");
  of_parameter("shape", Json(std::vector<double>{7.5}), "shape is");
  of_parameter("shape", Json(std::vector<std::int64_t>{1 << 30, 1 << 30, 1 << 30}), "shape is");
  of_parameter("shape", Json(std::vector<std::int64_t>{5, 7}), "the shape of parameter 0");
  of_parameter("group", 2, "group is");
  of_parameter("t", -1, "t is");
  of_parameter("owend", 0, "did you mean owned?");
  of_parameter("owned", std::nullopt, "has no 'owned'");
  of_parameter("owned", blocks({{18}}), "owned is");
  of_parameter("owned", blocks({{18, 18}}), "within the 35 elements");
  of_parameter("owned", blocks({{std::int64_t{1} << 62, std::int64_t{1} << 62}}), "owned is");
  of_parameter("owned", blocks({{20, 5}, {18, 2}}), "ascending");
  of_parameter("owned", blocks({{18, 9}, {26, 9}}), "without overlap");
  of_parameter("owned", blocks({{17, 17}}), "is owned by rank 0 too");
  expect_refused("the recorded elements (leaf) of parameter 0", [](Files& files) {
    set_parameter(files[rank1], 0, "leaf", blocks({{0, 34}}));
    for (auto& [name, t] : files[rank1].tensors) {
      if (name.ends_with("wte.weight") && t.values.size() == 35) t.values.pop_back();
    }
  });
  of_parameter("leaf", blocks({{0, 34}}), "'leaf.0.wte.weight' has 35 elements");
  of_parameter("sum_squares", -1, "sum_squares is");
  of_parameter("replicated", 1, "replicated is");
  of_parameter("replicated", true, "replicated of parameter 0 is not that of rank 0");
  expect_refused("replicated and not owned as a whole", [](Files& files) {
    for (auto& [name, file] : files) set_parameter(file, 0, "replicated", true);
  });
  expect_refused("element 34 of 'wte.weight' has no owner", [](Files& files) {
    set_parameter(files[rank1], 0, "owned", blocks({{18, 16}}));
    for (auto& [name, t] : files[rank1].tensors) {
      if (name.ends_with("wte.weight") && t.values.size() == 17) t.values.pop_back();
    }
  });
}

TEST_CASE("tensors of a recording are checked completely") {
  const auto tensors =
      [](const std::string& mention,
         const std::function<void(std::map<std::string, SimulatedTensor>&)>& change) {
        expect_refused(mention, [&](Files& files) { change(files[rank1].tensors); });
      };
  using Tensors = std::map<std::string, SimulatedTensor>;
  tensors("'before.grad.wte.weight' has 16 elements",
          [](Tensors& t) { t["before.grad.wte.weight"].values.pop_back(); });
  tensors("'model.wte.weight' has 36 elements",
          [](Tensors& t) { t["model.wte.weight"].values.push_back(0); });
  tensors("belongs to no parameter", [](Tensors& t) { t["model.x"] = {}; });
  tensors("belongs to no parameter", [](Tensors& t) { t["leaf.7.scale"].values = {1}; });
  tensors("belongs to no parameter", [](Tensors& t) { t["after.momentum_buffer.scale"] = {}; });
  tensors("there is no tensor 'after.exp_avg.wte.weight'",
          [](Tensors& t) { t.erase("after.exp_avg.wte.weight"); });
  tensors("there is no tensor 'leaf.0.wte.weight'", [](Tensors& t) {
    t.erase("leaf.0.wte.weight");
    t.erase("leaf.1.wte.weight");
  });
}

TEST_CASE("folders that are no recording are refused, and a recording that was cut off") {
  const TemporaryFolder folder;
  const std::string run = quoted(folder.file(""));
  expect_refusal("judge-run " + run, "there is no recorded step");
  expect_refusal("judge-run " + quoted(folder.file("none")), "cannot be read");
  expect_refusal("judge-run ''", "name is empty");
  Simulation simulation;
  simulation.write(folder.file(""));
  expect_refusal("judge-run " + run + " --steps 0", "--steps is '0'");
  expect_refusal("judge-run " + run + " --steps 7..8", "no step from 7 to 8 is recorded");
  expect_refusal("judge-run " + run + " --accumulate fp16", "--accumulate is 'fp16'");
  folder.write("step3.rank0.safetensors", "");
  expect_refusal("judge-run " + run, "is no name of a recorded step");
  std::filesystem::remove(folder.file("step3.rank0.safetensors"));
  folder.write("step000003.rank1.safetensors.tmp", "in the making");
  CHECK(run_cli("judge-run " + run).exit_code == 0);
  const std::string last = folder.file("step000003.rank1.safetensors");
  const auto size = std::filesystem::file_size(last);
  for (const std::uintmax_t kept : {size - 1, size / 2, std::uintmax_t{9}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(last, kept);
    expect_refusal("judge-run " + run, "step000003.rank1");
  }
  std::filesystem::remove(last);
  expect_refusal("judge-run " + run, "a step is judged over all ranks");
}

TEST_CASE("the command writes all reports, within 100 columns") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("run"));
  Simulation simulation;
  simulation.max_norm = 0.7;
  simulation.fault = "local norm";
  simulation.write(folder.file("run"));
  const std::string to = folder.file("");
  const CliResult result =
      run_cli("judge-run " + quoted(folder.file("run")) + " --report text,json:" + "'" + to +
              "/r.json',html:'" + to + "/r.html',junit:'" + to + "/r.xml'");
  CHECK(result.exit_code == 1);
  CHECK(result.err.empty());
  CHECK(result.out.find("FAIL judge-run/norm/step000002") != std::string::npos);
  CHECK(result.out.find("WRONG") != std::string::npos);
  CHECK(result.out.find("as if rank 1 clipped by the norm of its own shard") != std::string::npos);
  const std::size_t replay = result.out.find("  replay");
  CHECK(widest(result.out.substr(0, replay)) <= 100);
  const nlohmann::json json = nlohmann::json::parse(read_file(to + "/r.json"));
  CHECK(json.at("summary").at("fail") == 1);
  CHECK(json.at("cases").size() == 21);
  CHECK(json.at("cases").at(9).at("divergence").at("rank") == 1);
  CHECK(read_file(to + "/r.html").find("as if rank 1 clipped") != std::string::npos);
  CHECK(read_file(to + "/r.xml").find("judge-run/norm/step000002") != std::string::npos);
  // One step, with the state that it begins with.
  const CliResult one = run_cli("judge-run " + quoted(folder.file("run")) + " --steps 3");
  CHECK(one.exit_code == 0);
  CHECK(one.out.find("7 pass, 0 fail") != std::string::npos);
}

TEST_CASE("a recording without numbers is not right") {
  const TemporaryFolder folder;
  Simulation simulation;
  simulation.reports_norm = false;
  for (auto [name, file] : simulation.files()) {
    std::erase_if(file.tensors, [](const auto& t) {
      return !t.first.starts_with("before.master") && !t.first.starts_with("leaf");
    });
    set(file, "world", 1);
    if (name.find("rank0") == std::string::npos) continue;
    Json list = file.metadata.at("parameters");
    for (std::size_t p = 0; p < simulation.parameters.size(); ++p)
      list = with_item(
          list, p, with(list.begin()[p], "owned", blocks({{0, simulation.parameters[p].numel()}})));
    set(file, "parameters", list);
    for (auto& [tensor, t] : file.tensors) {
      for (const auto& p : simulation.parameters) {
        if (tensor.ends_with(p.name)) t.values.assign(static_cast<std::size_t>(p.numel()), 1);
      }
    }
    write_file(folder.file(name), file);
  }
  const CliResult result = run_cli("judge-run " + quoted(folder.file("")));
  CAPTURE(result.out);
  CAPTURE(result.err);
  CHECK(result.exit_code == 4);
  CHECK(result.out.find("nothing was proved") != std::string::npos);
}

TEST_CASE("a NaN is never right") {
  for (const std::string tensor :
       {"reduced.wte.weight", "before.grad.wte.weight", "after.master.wte.weight",
        "after.exp_avg.wte.weight", "model.wte.weight", "before.exp_avg_sq.wte.weight"}) {
    CAPTURE(tensor);
    Simulation simulation;
    simulation.max_norm = 0.7;
    Files files = simulation.files();
    files["step000002.rank1.safetensors"].tensors[tensor].values[3] = std::nanf("");
    const TemporaryFolder folder;
    for (const auto& [name, file] : files) write_file(folder.file(name), file);
    JudgeRunSettings settings;
    settings.folder = folder.file("");
    CHECK(exit_code(judge_run(settings), false) == 1);
  }
}
