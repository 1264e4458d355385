// Recordings of one training under two settings, right and with one planted fault.

#include <doctest.h>

#include <algorithm>
#include <filesystem>

#include "common/base/error.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/tools/judge_run/simulated_run.hpp"
#include "verification/tools/judge_run/judge_against.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using namespace zeroproof::tests;

using PairFiles = std::map<std::string, SimulatedFile>;

/// `world` ranks with as many micro-batches that all of them together have four.
Simulation run_on(int world) {
  Simulation run;
  run.world = world;
  run.micro = 4 / world;
  run.max_norm = 0.7;
  run.shares_batches = true;
  return run;
}

RunReport compared(const PairFiles& a, const PairFiles& b, std::optional<double> within = {}) {
  const TemporaryFolder folder;
  JudgeAgainstSettings settings;
  settings.folders = {folder.file("a"), folder.file("b")};
  settings.phases.gradients_within = within;
  for (std::size_t s = 0; s < 2; ++s) {
    std::filesystem::create_directories(settings.folders[s]);
    for (const auto& [name, file] : s == 0 ? a : b)
      write_file(settings.folders[s] + "/" + name, file);
  }
  return judge_against(settings);
}

const Result& pair_result(const RunReport& report, std::int64_t step, const std::string& phase) {
  char end[32];
  std::snprintf(end, sizeof(end), "/step%06d", static_cast<int>(step));
  const auto found = std::ranges::find(report.results, "against/" + phase + end, &Result::id);
  REQUIRE(found != report.results.end());
  return *found;
}

/// "2 reduce, 2 norm": phases with this status.
std::string phases_with(const RunReport& report, Status status) {
  std::string text;
  for (const Result& r : report.results) {
    if (r.status != status) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(std::stoi(r.id.substr(r.id.size() - 6))) +
            " " + r.group;
  }
  return text;
}

/// Phases whose bits are equal in every step.
std::string equal_phases(const RunReport& report) {
  std::string text;
  for (const Result& first : report.results) {
    if (!first.id.ends_with("000001")) continue;
    const bool all = std::ranges::all_of(report.results, [&](const Result& r) {
      return r.group != first.group || (r.status == Status::pass && r.exactness == "bitwise");
    });
    if (all) text += (text.empty() ? "" : " ") + first.group;
  }
  return text;
}

struct PlantedPair {
  std::string fault;
  std::string differ;  ///< "2 reduce": the phases that differ
  std::string phase, buffer, parameter;
  std::string hint;
};

void expect_difference(const Simulation& a, Simulation b, const PlantedPair& planted) {
  CAPTURE(planted.fault);
  b.fault = planted.fault;
  const RunReport report = compared(a.files(), b.files());
  CHECK(phases_with(report, Status::fail) == planted.differ);
  CHECK(exit_code(report, false) == 1);
  const Result& result = pair_result(report, b.at_step, planted.phase);
  REQUIRE(result.divergence);
  const Divergence& d = *result.divergence;
  CHECK(d.step == b.at_step);
  CHECK(d.buffer == planted.buffer);
  CHECK(d.parameter == planted.parameter);
  CHECK(d.candidate_value.find(" A") != std::string::npos);
  CHECK(d.reference_value.find(" B") != std::string::npos);
  CAPTURE(d.hint);
  CHECK(d.hint.find(planted.hint) != std::string::npos);
}

void set_value(PairFiles& files, const std::string& file, const std::string& tensor, std::size_t i,
               float value) {
  REQUIRE(files.contains(file));
  REQUIRE(files[file].tensors.contains(tensor));
  files[file].tensors[tensor].values[i] = value;
}

const std::string all_phases_text = "settings state backward reduce overflow norm clip update cast";
const std::string wte = "wte.weight";

}  // namespace

TEST_CASE("pair_ratio: deviations of both sides in units of the sum of their bounds") {
  const ElementBound one{1, 0.25L, true}, two{2.25L, 0.25L, true}, exact{2.25L, 0, true};
  CHECK(pair_ratio({1.5, 2.5}, {one, two}) == 0.5);    // |0.5 - 0.25| / 0.5
  CHECK(pair_ratio({1.25, 2.0}, {one, two}) == 1);     // |0.25 + 0.25| / 0.5
  CHECK(pair_ratio({1.5, 2.0}, {one, two}) == 1.5);    // |0.5 + 0.25| / 0.5
  CHECK(pair_ratio({9.0, 10.25}, {one, two}) == 0);    // the same deviation
  CHECK(pair_ratio({1.25, 2.25}, {one, exact}) == 1);  // a side without an error
  CHECK(pair_ratio({1, 2}, {ElementBound{1, 0, true}, exact}) == HUGE_VAL);
  const double nan = std::nan("");
  CHECK(pair_ratio({nan, nan}, {one, one}) == HUGE_VAL);
  CHECK(pair_ratio({nan, 2}, {one, two}) == HUGE_VAL);
  CHECK(pair_ratio({HUGE_VAL, HUGE_VAL}, {one, two}) == 0);
  CHECK(pair_ratio({HUGE_VAL, 2.25}, {one, two}) == HUGE_VAL);
  const ElementBound finite{0, 0, false, ResultClasses::number | ResultClasses::zero};
  CHECK(pair_ratio({5, 6}, {finite, finite}) == 0);
  CHECK(pair_ratio({5, HUGE_VAL}, {finite, finite}) == HUGE_VAL);
  CHECK_FALSE(pair_ratio({5, 6}, {ElementBound{}, one}).has_value());  // no statement, no verdict
  CHECK(pair_ratio({nan, nan}, {ElementBound{}, one}) == HUGE_VAL);
}

TEST_CASE("AgainstSuite: a recording equals itself in every phase, sharded or not") {
  for (const int world : {1, 2, 4}) {
    for (const bool replicated : {false, true}) {
      Simulation run = run_on(world);
      run.replicated = replicated;
      const RunReport report = compared(run.files(), run.files());
      CHECK(exit_code(report, false) == 0);
      CHECK(equal_phases(report) == all_phases_text);
      CHECK(pair_result(report, 1, "update").compared > 0);
    }
  }
  // The same shards on one rank more or less: only sums in another order have other bits.
  Simulation sharded = run_on(2), whole = run_on(2);
  whole.replicated = true;
  const RunReport report = compared(sharded.files(), whole.files());
  CHECK(equal_phases(report) == all_phases_text);
}

TEST_CASE("AgainstSuite: other world sizes are within the sum of both bounds") {
  for (const int world : {2, 4}) {
    for (const bool replicated : {false, true}) {
      for (const bool mean : {true, false}) {
        CAPTURE(world);
        Simulation a = run_on(1), b = run_on(world);
        a.mean = b.mean = mean;
        if (!mean) b.shares_batches = a.shares_batches = false;
        if (!mean) a = b;
        b.replicated = replicated;
        b.dialect = "torch-cpu-fused";
        b.backwards = true;
        const RunReport report = compared(a.files(), b.files());
        CHECK(phases_with(report, Status::fail) == "");
        CHECK(phases_with(report, Status::skipped) == "");
        CHECK(exit_code(report, false) == 0);
        CHECK(pair_result(report, 2, "backward").exactness == "bitwise");
        CHECK(pair_result(report, 2, "reduce").worst_ratio > 0);
        CHECK(pair_result(report, 2, "reduce").worst_ratio <= 1);
        CHECK(pair_result(report, 2, "update").worst_ratio > 0);
        CHECK(pair_result(report, 2, "update").worst_ratio <= 1);
      }
    }
  }
}

TEST_CASE("AgainstSuite: loss scales, formats and skipped steps do not count as differences") {
  Simulation a = run_on(2), b = run_on(4);
  b.loss_scale = 1024;
  CHECK(phases_with(compared(a.files(), b.files()), Status::fail) == "");
  a.loss_scale = 1000;
  CHECK(phases_with(compared(a.files(), b.files(), 1e-6), Status::fail) == "");
  a.overflows = b.overflows = {2};
  a.loss_scale = 1024;
  const RunReport report = compared(a.files(), b.files());
  CHECK(phases_with(report, Status::fail) == "");
  CHECK(phases_with(report, Status::skipped) == "2 norm, 2 clip");
  a = run_on(2);
  b = run_on(4);
  a.leaf = b.leaf = a.accumulate = b.accumulate = DType::bf16;
  a.model = b.model = DType::bf16;
  b.backwards = true;
  const RunReport narrow = compared(a.files(), b.files());
  CHECK(phases_with(narrow, Status::fail) == "");
  CHECK(pair_result(narrow, 1, "reduce").reason.find("accumulated in bf16 in A and B") !=
        std::string::npos);
}

TEST_CASE("AgainstSuite: each side has the bound of its own way of adding micro-batches") {
  Simulation a = run_on(1), b = run_on(2);
  b.accumulate = DType::bf16;
  b.reduced_one_by_one = true;
  const RunReport report = compared(a.files(), b.files());
  CHECK(pair_result(report, 1, "reduce").status == Status::pass);
  CHECK(pair_result(report, 1, "reduce").reason.find("micro-batches reduced in bf16 in B") !=
        std::string::npos);
  b.fault = "one rank left out";
  b.reduced_one_by_one = false;
  CHECK(pair_result(compared(a.files(), b.files()), 2, "reduce").status == Status::fail);
}

TEST_CASE("AgainstSuite: an infinite gradient of a skipped step leaves the bound of the others") {
  Simulation a = run_on(2);
  a.loss_scale = 1024;
  a.overflows = {2};
  const PairFiles files = a.files();
  const std::string file = "step000002.rank1.safetensors", leaf = "leaf.1.head.weight";
  const std::vector<float> values = files.at(file).tensors.at(leaf).values;
  REQUIRE(std::isinf(values[2]));
  const auto with = [&](float factor) {
    PairFiles other = files;
    set_value(other, file, leaf, 0, values[0] * factor);
    return other;
  };
  CHECK(pair_result(compared(files, with(1 + 0x1p-23F)), 2, "backward").status == Status::pass);
  CHECK(pair_result(compared(files, with(2), 1e-3), 2, "backward").status == Status::fail);
}

TEST_CASE("AgainstSuite: faults of one side are found in their phase and named") {
  const Simulation a = run_on(1);
  Simulation b = run_on(2);
  b.steps = 3;
  expect_difference(a, b,
                    {"mean forgotten", "2 reduce", "reduce", "reduced", wte,
                     "B is wrong by itself; as if not divided by the number of ranks (2)"});
  expect_difference(a, b,
                    {"divided twice", "2 reduce", "reduce", "reduced", wte,
                     "as if divided twice by the number of ranks (2)"});
  expect_difference(a, b,
                    {"one rank left out", "2 reduce", "reduce", "reduced", wte,
                     "the gradients of rank 1 were left out"});
  expect_difference(a, b,
                    {"micro-batch left out", "2 reduce", "reduce", "reduced", wte,
                     "micro-batch 1 of every rank were left out"});
  expect_difference(
      a, b,
      {"local norm", "2 norm", "norm", "norm", "", "rank 1 clipped by the norm of its own shard"});
  expect_difference(
      a, b, {"clip twice", "2 clip", "clip", "before.grad", wte, "the clip were applied twice"});
  expect_difference(a, b, {"other settings", "2 settings", "settings", "lr", "h.0.bias", ""});
  expect_difference(a, b,
                    {"wrong rate", "2 update", "update", "after.master", "h.0.bias",
                     "as if lr were 0.01, that of group 0"});
  expect_difference(a, b,
                    {"decay after the update", "2 update", "update", "after.master", wte, ""});
  expect_difference(a, b, {"eps in the root", "2 update", "update", "after.master", wte, ""});
  expect_difference(a, b,
                    {"t not increased", "2 update, 3 update", "update", "t", wte,
                     "as if the step count had not increased"});
  expect_difference(a, b, {"not applied", "2 update", "update", "after.master", wte, ""});
  expect_difference(a, b,
                    {"stale shard", "2 cast", "cast", "model", wte, "not gathered from rank 1"});
  expect_difference(
      a, b,
      {"moment lost", "2 state", "state", "before.exp_avg", wte, "they are 0, lost on resume"});
  expect_difference(a, b,
                    {"skip on one rank", "2 overflow, 2 update, 3 update", "overflow", "applied",
                     "", "as if the ranks did not agree"});
}

TEST_CASE("AgainstSuite: a mistake of A is that of A, and one of both is none") {
  Simulation a = run_on(2);
  const Simulation b = run_on(1);
  a.fault = "mean forgotten";
  const RunReport report = compared(a.files(), b.files());
  CHECK(phases_with(report, Status::fail) == "2 reduce");
  CHECK(pair_result(report, 2, "reduce")
            .divergence.value_or(Divergence{})
            .hint.find("A is wrong by itself") == 0);
  Simulation also = run_on(2);
  also.replicated = true;
  also.fault = a.fault = "decay after the update";
  CHECK(exit_code(compared(a.files(), also.files()), false) == 0);
}

TEST_CASE(
    "AgainstSuite: gradients of other kernels need a factor, and parameters with equal bits") {
  const Simulation run = run_on(2);
  const PairFiles a = run.files();
  PairFiles b = a;
  const std::string file = "step000001.rank0.safetensors";
  const float was = b[file].tensors["leaf.0." + wte].values[3];
  set_value(b, file, "leaf.0." + wte, 3, was * (1 + 0x1p-12F));
  CHECK(phases_with(compared(a, b), Status::fail) == "1 backward");
  CHECK(phases_with(compared(a, b, 1e-5), Status::fail) == "1 backward");
  CHECK(phases_with(compared(a, b, 1e-3), Status::fail) == "");
  // A gradient of B that is neither that of A nor the sum of its own leaves.
  float& sum = b[file].tensors["reduced." + wte].values[3];
  sum *= 1 + 0x1p-18F;
  CHECK(phases_with(compared(a, b, 1e-3), Status::fail) == "1 reduce");
  // In step 2 parameters differ in the last bit, as step 1 allows.
  b = a;
  set_value(b, "step000002.rank0.safetensors", "leaf.0." + wte, 3, was * (1 + 0x1p-12F));
  for (const std::string& tensor : {"after.master." + wte, "model." + wte}) {
    for (const char* const rank : {"0", "1"}) {
      auto& tensors = b[std::string("step000001.rank") + rank + ".safetensors"].tensors;
      if (tensor.starts_with("after") && *rank == '1') continue;
      tensors[tensor].values[0] = std::nextafter(tensors[tensor].values[0], HUGE_VALF);
    }
  }
  auto& before = b["step000002.rank0.safetensors"].tensors["before.master." + wte].values[0];
  before = std::nextafter(before, HUGE_VALF);
  const RunReport report = compared(a, b);
  CHECK(phases_with(report, Status::skipped).starts_with("2 backward"));
  CHECK(phases_with(report, Status::fail).find("backward") == std::string::npos);
  CHECK(report.notes.back().find("backward not judged in steps 2 to 2") == 0);
  CHECK(pair_result(report, 2, "state").status == Status::pass);
  CHECK(pair_result(report, 2, "state").exactness == "bounded");
  CHECK(phases_with(compared(a, b, 1e-6), Status::fail).find("2 backward") != std::string::npos);
}

TEST_CASE("AgainstSuite: gradients that one side rounds to bf16 are named") {
  const PairFiles a = run_on(2).files();
  PairFiles b = a;
  for (const char* const rank : {"0", "1"}) {
    auto& file = b[std::string("step000002.rank") + rank + ".safetensors"];
    for (float& x : file.tensors["before.grad." + wte].values) x = in_format(DType::bf16, x);
  }
  const RunReport report = compared(a, b);
  const Divergence d = pair_result(report, 2, "clip").divergence.value_or(Divergence{});
  CHECK(d.hint.find("B has numbers of bf16, A has not") != std::string::npos);
}

TEST_CASE("AgainstSuite: recordings that begin with another state differ") {
  const Simulation run = run_on(2);
  const PairFiles a = run.files();
  PairFiles b = a;
  auto& first = b["step000001.rank0.safetensors"].tensors["before.master." + wte].values[0];
  first = std::nextafter(first, HUGE_VALF);
  const RunReport report = compared(a, b);
  CHECK(pair_result(report, 1, "state").status == Status::fail);
  CHECK(pair_result(report, 1, "state")
            .divergence.value_or(Divergence{})
            .hint.find("do not begin with the same parameters") != std::string::npos);
}

TEST_CASE("AgainstSuite: another limit is named with both values, each with its side once") {
  const PairFiles a = run_on(2).files();
  Simulation run = run_on(2);
  run.max_norm = 0.75;
  const RunReport report = compared(a, run.files());
  const Divergence d = pair_result(report, 1, "settings").divergence.value_or(Divergence{});
  CHECK(d.buffer == "max_norm");
  CHECK(d.candidate_value.ends_with(" in A"));
  CHECK(d.candidate_value.find(" in A in A") == std::string::npos);
  CHECK(d.reference_value == "0.75 on rank 0 of B");
}

TEST_CASE("AgainstSuite: a NaN is never equal, also on both sides") {
  for (const std::string tensor : {"leaf.0.", "reduced.", "before.grad.", "before.exp_avg.",
                                   "after.master.", "after.exp_avg_sq.", "model."}) {
    CAPTURE(tensor);
    PairFiles a = run_on(2).files();
    PairFiles b = a;
    set_value(a, "step000002.rank1.safetensors", tensor + wte, 3, std::nanf(""));
    CHECK(exit_code(compared(a, b), false) == 1);
    set_value(b, "step000002.rank1.safetensors", tensor + wte, 3, std::nanf(""));
    CHECK(exit_code(compared(a, b), false) == 1);
  }
}

TEST_CASE("AgainstSuite: NaN among many micro-batch gradients") {
  Simulation run = run_on(4);
  run.micro = 8;
  PairFiles a = run.files();
  for (const char* const leaf : {"leaf.1.", "leaf.3.", "leaf.6."}) {
    for (const char* const rank : {"0", "2", "3"})
      set_value(a, std::string("step000002.rank") + rank + ".safetensors", leaf + wte, 3,
                std::nanf(""));
  }
  CHECK(pair_result(compared(a, a), 2, "backward").status == Status::fail);
}

TEST_CASE("AgainstSuite: every tensor is compared") {
  const PairFiles a = run_on(2).files();
  for (const auto& entry : a.at("step000002.rank1.safetensors").tensors) {
    const std::string& name = entry.first;
    const SimulatedTensor& tensor = entry.second;
    CAPTURE(name);
    PairFiles b = a;
    if (tensor.values.empty()) continue;
    const float was = tensor.values.back();
    set_value(b, "step000002.rank1.safetensors", name, tensor.values.size() - 1, was + 0.5F);
    CHECK(exit_code(compared(a, b), false) == 1);
  }
}

TEST_CASE("AgainstSuite: replicas are held to the first one") {
  Simulation run = run_on(4);
  run.replicated = true;
  const PairFiles a = run.files();
  for (const std::string tensor : {"reduced.", "before.grad.", "after.master.", "model."}) {
    CAPTURE(tensor);
    PairFiles b = a;
    float& x = b["step000002.rank2.safetensors"].tensors[tensor + wte].values[1];
    x = std::nextafter(x, HUGE_VALF);
    CHECK(exit_code(compared(a, b), false) == 1);
    CHECK(exit_code(compared(b, a), false) == 1);
  }
}

TEST_CASE("AgainstSuite: a model that one side has not recorded is not compared") {
  const PairFiles a = run_on(2).files();
  PairFiles b = a;
  for (const char* const rank : {"0", "1"}) {
    std::erase_if(b[std::string("step000002.rank") + rank + ".safetensors"].tensors,
                  [](const auto& entry) { return entry.first.starts_with("model."); });
  }
  for (const RunReport& report : {compared(a, b), compared(b, a)}) {
    CHECK(phases_with(report, Status::skipped) == "2 cast");
    CHECK(pair_result(report, 2, "cast").reason == "not recorded: model of all ranks");
  }
}

TEST_CASE("AgainstSuite: recordings with settings alone prove nothing") {
  Simulation run = run_on(1);
  run.reports_norm = false;
  PairFiles a = run.files();
  for (auto& [name, file] : a) file.tensors.clear();
  PairFiles b = a;
  const RunReport report = compared(a, b);
  CHECK(phases_with(report, Status::pass) == "");
  CHECK(exit_code(report, false) == 4);
}

TEST_CASE("judge-run --against: recordings of two trainings and flags that do not apply") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const Simulation& run) {
    std::filesystem::create_directories(folder.file(name));
    run.write(folder.file(name));
    return quoted(folder.file(name));
  };
  const Simulation plain = run_on(2);
  const std::string a = write("a", plain), b = write("b", run_on(4));
  Simulation other = plain;
  other.parameters[1].shape = {4};
  const std::string shape = write("shape", other);
  other = plain;
  other.parameters.pop_back();
  const std::string fewer = write("fewer", other);
  other = plain;
  for (auto& p : other.parameters) p.name = "other." + p.name;
  const std::string named = write("named", other);
  other = plain;
  other.sampled = true;
  const std::string sampled = write("sampled", other);
  other = plain;
  other.steps = 4;
  const std::string longer = write("longer", other);
  const auto refused = [&](const std::string& words, const std::string& mention) {
    expect_refusal("judge-run " + words, mention);
  };
  refused(a + " --against " + shape, "the shape of 'h.0.bias' is another than in A");
  refused(a + " --against " + fewer, "a parameter is recorded in one recording only");
  refused(a + " --against " + named, "it has no parameter of A");
  refused(a + " --against " + sampled, "record with the same limit and seed");
  refused(a + " --against " + longer, "step 4 is not recorded");
  refused(longer + " --against " + a, "step 4 is not recorded");
  refused(a + " --against " + longer + " --steps 7..9", "no step from 7 to 9 is recorded");
  refused(a + " --against ''", "--against was given an empty value");
  refused(a + " --against " + quoted(folder.file("none")), "cannot be read");
  refused(a + " --gradients-within 1e-5", "--gradients-within is given without --against");
  refused(a + " --against " + b + " --accumulate fp32",
          "--accumulate fp32 is given with --against");
  for (const std::string bad : {"0", "-1", "2", "nan", "inf", "x"})
    refused(a + " --against " + b + " --gradients-within=" + bad, "--gradients-within is");
  CHECK(run_cli("judge-run " + longer + " --against " + a + " --steps 1..3").exit_code == 0);
}

TEST_CASE("judge-run --against: writes all reports, within 100 columns") {
  const TemporaryFolder folder;
  Simulation a = run_on(1), b = run_on(2);
  b.fault = "moment lost";
  for (const char* name : {"a", "b"}) std::filesystem::create_directories(folder.file(name));
  a.write(folder.file("a"));
  b.write(folder.file("b"));
  const std::string to = folder.file("");
  const CliResult result = run_cli("judge-run " + quoted(folder.file("a")) + " --against " +
                                   quoted(folder.file("b")) + " --report text,json:'" + to +
                                   "/r.json',html:'" + to + "/r.html',junit:'" + to + "/r.xml'");
  CHECK(result.exit_code == 1);
  CHECK(result.err.empty());
  CHECK(result.out.find("FAIL against/state/step000002") != std::string::npos);
  CHECK(result.out.find("DIFFERS") != std::string::npos);
  CHECK(result.out.find("equal") != std::string::npos);
  CAPTURE(result.out);
  CHECK(widest(result.out.substr(0, result.out.find("  replay"))) <= 100);
  const nlohmann::json json = nlohmann::json::parse(read_file(to + "/r.json"));
  CHECK(json.at("summary").at("fail") == 1);
  CHECK(json.at("cases").size() == 27);
  CHECK(read_file(to + "/r.html").find("lost on resume") != std::string::npos);
  CHECK(read_file(to + "/r.xml").find("against/state/step000002") != std::string::npos);
  const CliResult one = run_cli("judge-run " + quoted(folder.file("a")) + " --against " +
                                quoted(folder.file("b")) + " --steps 3");
  CHECK(one.exit_code == 0);
  CHECK(one.out.find("9 pass, 0 fail") != std::string::npos);
}
