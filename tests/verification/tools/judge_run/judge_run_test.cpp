// Recordings of right trainings, and of trainings with one planted fault.

#include <doctest.h>

#include <algorithm>

#include "tests/support/temporary_folder.hpp"
#include "tests/verification/tools/judge_run/simulated_run.hpp"
#include "verification/tools/judge_run/judge_run.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using namespace zeroproof::tests;

RunReport judged(const Simulation& run, bool only_fp32 = false, const std::string& without = "") {
  const TemporaryFolder folder;
  for (auto [name, file] : run.files()) {
    std::erase_if(file.tensors, [&](const auto& tensor) {
      return !without.empty() && tensor.first.starts_with(without);
    });
    write_file(folder.file(name), file);
  }
  JudgeRunSettings settings;
  settings.folder = folder.file("");
  settings.phases.only_fp32 = only_fp32;
  return judge_run(settings);
}

const Result& result_of(const RunReport& report, std::int64_t step, const std::string& phase) {
  char end[32];
  std::snprintf(end, sizeof(end), "/step%06d", static_cast<int>(step));
  const auto found = std::ranges::find(report.results, "judge-run/" + phase + end, &Result::id);
  REQUIRE(found != report.results.end());
  return *found;
}

/// The first difference; an empty one if there is none.
Divergence difference(const RunReport& report, std::int64_t step, const std::string& phase) {
  return result_of(report, step, phase).divergence.value_or(Divergence{});
}

/// "2 reduce, 2 norm": the wrong phases.
std::string wrong_phases(const RunReport& report) {
  std::string text;
  for (const Result& r : report.results) {
    if (r.status != Status::fail) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(std::stoi(r.id.substr(r.id.size() - 6))) +
            " " + r.group;
  }
  return text;
}

void expect_right(const Simulation& run, const std::vector<std::string>& phases) {
  const RunReport report = judged(run);
  CHECK(wrong_phases(report) == "");
  CHECK(exit_code(report, false) == 0);
  for (const std::string& phase : phases) {
    CAPTURE(phase);
    const Result& result = result_of(report, run.steps, phase);
    CAPTURE(result.reason);
    CHECK(result.status == Status::pass);
    CHECK(result.compared > 0);
    CHECK(result.worst_ratio <= 1);
  }
}

const std::vector<std::string> all_of_them = {"reduce", "overflow", "norm", "clip",
                                              "update", "cast",     "state"};

struct Planted {
  std::string fault;
  std::string phases;  ///< that are wrong
  std::string phase;   ///< of step 2, whose difference is described
  int rank;
  std::string buffer, parameter;
  std::int64_t element;
  std::string hint;
};

void expect_found(Simulation run, const Planted& planted, bool only_fp32 = false) {
  CAPTURE(planted.fault);
  run.fault = planted.fault;
  const RunReport report = judged(run, only_fp32);
  CHECK(wrong_phases(report) == planted.phases);
  CHECK(exit_code(report, false) == 1);
  const Result& result = result_of(report, run.at_step, planted.phase);
  REQUIRE(result.divergence);
  const Divergence& d = *result.divergence;
  CHECK(d.step == run.at_step);
  CHECK(d.rank == planted.rank);
  CHECK(d.buffer == planted.buffer);
  CHECK(d.parameter == planted.parameter);
  CHECK(d.global_index == planted.element);
  CHECK_FALSE(d.candidate_value.empty());
  CHECK_FALSE(d.reference_value.empty());
  CAPTURE(d.hint);
  CHECK(d.hint.find(planted.hint) != std::string::npos);
}

}  // namespace

TEST_CASE("a right training is right in every phase") {
  for (const int world : {1, 2, 3, 4}) {
    for (const bool replicated : {false, true}) {
      for (const bool mean : {true, false}) {
        CAPTURE(world);
        CAPTURE(replicated);
        CAPTURE(mean);
        Simulation run;
        run.world = world;
        run.replicated = replicated;
        run.mean = mean;
        run.max_norm = 0.7;
        expect_right(run, all_of_them);
      }
    }
  }
}

TEST_CASE("formats, loss scales, limits and norms of a right training") {
  Simulation run;
  run.world = 3;
  run.max_norm = 1e6;  // not reached
  expect_right(run, all_of_them);
  run.max_norm = 0.5;
  run.leaf = run.model = DType::bf16;
  expect_right(run, all_of_them);
  run.loss_scale = 1024;
  expect_right(run, all_of_them);
  run.loss_scale = 1000;
  expect_right(run, all_of_them);
  run.leaf = run.model = DType::fp16;
  run.loss_scale = 128;
  expect_right(run, all_of_them);
  for (const double p : {1.0, 3.0, HUGE_VAL}) {
    CAPTURE(p);
    run.norm_type = p;
    expect_right(run, all_of_them);
  }
  run.norm_type = 2;
  run.reports_norm = false;  // the coefficient is made from the gradients
  expect_right(run, {"reduce", "overflow", "clip", "update", "cast", "state"});
  CHECK(result_of(judged(run), 1, "clip").reason == "");
  run.max_norm.reset();
  expect_right(run, {"reduce", "overflow", "clip", "update", "cast", "state"});
  CHECK(result_of(judged(run), 1, "clip").reason == "no clip");
}

TEST_CASE("a skipped step, sampled elements and other dialects are right") {
  Simulation run;
  run.overflows = {2};
  run.max_norm = 0.7;
  run.loss_scale = 1024;
  run.steps = 4;
  expect_right(run, all_of_them);
  run.sampled = true;
  expect_right(run, all_of_them);
  run.world = 4;
  run.dialect = "deepspeed-cpu-adam-avx512";
  expect_right(run, all_of_them);
  run.replicated = true;
  expect_right(run, all_of_them);
}

TEST_CASE("faults of the reduction are found and named") {
  Simulation run;
  run.max_norm = 0.7;
  const std::string w = "wte.weight";
  expect_found(run, {"mean forgotten", "2 reduce", "reduce", 0, "reduced", w, 0,
                     "as if not divided by the number of ranks (2)"});
  expect_found(run, {"divided twice", "2 reduce", "reduce", 0, "reduced", w, 0,
                     "as if divided twice by the number of ranks (2)"});
  expect_found(run, {"one rank left out", "2 reduce", "reduce", 0, "reduced", w, 0,
                     "as if the gradients of rank 1 were left out"});
  expect_found(run, {"micro-batch left out", "2 reduce", "reduce", 0, "reduced", w, 0,
                     "as if micro-batch 1 of every rank were left out"});
  run.replicated = true;
  run.world = 3;
  expect_found(run, {"one rank left out", "2 reduce", "reduce", 0, "reduced", w, 0,
                     "as if the gradients of rank 1 were left out"});
}

TEST_CASE("sums in bf16 are named, and right unless fp32 is required") {
  Simulation run;
  run.leaf = run.accumulate = DType::bf16;
  run.world = 4;
  const RunReport report = judged(run);
  CHECK(wrong_phases(report) == "");
  CHECK(result_of(report, 2, "reduce").reason == "accumulated in bf16");
  CHECK(result_of(report, 2, "reduce").worst_ratio > 0.01);
  CHECK(wrong_phases(judged(run, true)) == "1 reduce, 2 reduce, 3 reduce");
  run.fault = "mean forgotten";
  CHECK(wrong_phases(judged(run)) == "2 reduce");
}

TEST_CASE("micro-batches that are reduced one by one in bf16 are named, and errors of their size") {
  Simulation run;
  run.accumulate = DType::bf16;
  run.reduced_one_by_one = true;
  const RunReport report = judged(run);
  CHECK(wrong_phases(report) == "");
  CHECK(result_of(report, 2, "reduce").reason == "micro-batches reduced in bf16");
  CHECK(wrong_phases(judged(run, true)) == "1 reduce, 2 reduce, 3 reduce");
  // Within the bound, and no sums of two numbers of bf16.
  const TemporaryFolder folder;
  for (auto [name, file] : run.files()) {
    for (float& x : file.tensors.at("reduced.wte.weight").values) x *= 1 + 0x1p-15F;
    write_file(folder.file(name), file);
  }
  JudgeRunSettings settings;
  settings.folder = folder.file("");
  CHECK(result_of(judge_run(settings), 2, "reduce").status == Status::fail);
}

TEST_CASE("a lost micro-batch of the rank that has more than others is found, also in bf16") {
  Simulation run;
  run.micro = 1;
  run.accumulate = DType::bf16;
  run.reduced_one_by_one = true;
  const TemporaryFolder folder;
  for (auto [name, file] : run.files()) {
    if (name.find("rank1") != std::string::npos) {
      file.metadata["micro_batches"] = 2;
      for (const auto& parameter : run.parameters)
        file.tensors["leaf.1." + parameter.name] = file.tensors.at("leaf.0." + parameter.name);
    }
    write_file(folder.file(name), file);
  }
  JudgeRunSettings settings;
  settings.folder = folder.file("");
  CHECK(wrong_phases(judge_run(settings)) == "1 reduce, 2 reduce, 3 reduce");
}

TEST_CASE("faults of the norm and of the clip are found and named") {
  Simulation run;
  run.max_norm = 0.7;
  run.loss_scale = 1024;
  const std::string w = "wte.weight";
  const auto text = [](const char* s) { return std::string(s); };
  expect_found(run, {"local norm", "2 norm", "norm", 1, "norm", "", -1,
                     "as if rank 1 clipped by the norm of its own shard"});
  expect_found(run, {"shard counted twice", "2 norm", "norm", 0, "norm", "", -1,
                     "as if the shard of head.weight on rank 1 were counted twice"});
  expect_found(run, {"clip twice", "2 clip", "clip", 1, "before.grad", w, 18,
                     "as if the clip were applied twice"});
  expect_found(run, {"norm of scaled gradients", "2 clip", "clip", 0, "before.grad", w, 0,
                     text("as if the coefficient were made with the norm of the scaled gradients "
                          "(loss scale 1024)")});
  run.reports_norm = false;
  expect_found(run, {"local norm", "2 clip", "clip", 1, "before.grad", w, 18,
                     "as if rank 1 clipped by the norm of its own shard"});
  run.reports_norm = true;
  run.replicated = true;
  expect_found(run, {"replicas counted", "2 norm", "norm", 0, "norm", "", -1,
                     "as if a replicated parameter were counted 2 times"});
}

TEST_CASE("faults of skipped steps are found and named") {
  Simulation run;
  run.max_norm = 0.7;
  expect_found(run, {"skip on one rank", "2 overflow, 2 update, 3 update", "overflow", 1, "applied",
                     "", -1, "as if the ranks did not agree: 1 of 2 skipped"});
  run.overflows = {2};
  expect_found(run,
               {"update on a skipped step", "2 overflow, 2 update, 3 update", "overflow", 1,
                "after.master", "wte.weight", 18, "had updated although the step was skipped"});
}

TEST_CASE("faults of the update are found and named") {
  Simulation run;
  const std::string w = "wte.weight";
  expect_found(run, {"t not increased", "2 update", "update", 0, "t of wte.weight", "", -1,
                     "as if the step count had not increased"});
  expect_found(run, {"decay after the update", "2 update", "update", 0, "after.master", w, 0,
                     "as if the weight decay came after the step"});
  expect_found(run, {"eps in the root", "2 update", "update", 0, "after.master", w, 0,
                     "as if eps were inside the square root"});
  expect_found(run, {"wrong rate", "2 update", "update", 0, "after.master", "scale", 0,
                     "as if lr were 0.01, that of group 0"});
  expect_found(run, {"not applied", "2 update", "update", 1, "after.master", w, 18, ""});
}

TEST_CASE("replicas that differ are found") {
  Simulation run;
  run.replicated = true;
  run.max_norm = 0.7;
  run.fault = "not applied";
  RunReport report = judged(run);
  CHECK(wrong_phases(report) == "2 update, 2 cast, 3 cast");
  CHECK(difference(report, 2, "cast").rank == 1);
  CHECK(difference(report, 2, "cast").parameter == "wte.weight");
  const RunReport by_masters = judged(run, false, "model.");
  CHECK(wrong_phases(by_masters) == "2 update, 2 cast, 3 cast");
  CHECK(difference(by_masters, 2, "cast").buffer == "after.master");
  run.fault = "other bits on a replica";  // within every bound
  report = judged(run);
  CHECK(wrong_phases(report) == "2 reduce");
  const Divergence reduce = difference(report, 2, "reduce");
  CHECK(reduce.buffer == "reduced of a replica");
  CHECK(reduce.rank == 1);
  CHECK(reduce.global_index == 2);
}

TEST_CASE("settings and scales that differ between ranks are found") {
  Simulation run;
  run.fault = "other settings";
  RunReport report = judged(run);
  const Divergence settings = difference(report, 2, "update");
  CHECK(settings.buffer == "settings of group 1");
  CHECK(settings.rank == 1);
  run.fault = "other scale";
  report = judged(run);
  CHECK(difference(report, 2, "overflow").buffer == "loss_scale");
}

TEST_CASE("faults of casts and between steps are found and named") {
  Simulation run;
  run.model = DType::bf16;
  const std::string w = "wte.weight";
  expect_found(
      run, {"stale shard", "2 cast", "cast", 0, "model", w, 18, "stale, not gathered from rank 1"});
  expect_found(run, {"moment lost", "2 state", "state", 1, "before.exp_avg", w, 18,
                     "moments of before are not those after the last step: they are 0, lost on "
                     "resume"});
  run.fault = "truncated";
  const RunReport report = judged(run);
  CHECK(wrong_phases(report) == "2 cast");
  CHECK(difference(report, 2, "cast").hint ==
        "as if the values were truncated instead of rounded to nearest even");
  CHECK(difference(report, 2, "cast").rank == 1);
}
