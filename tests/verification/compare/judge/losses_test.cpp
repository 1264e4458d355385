// The losses of a run with the candidate's own parameters.

#include <doctest.h>

#include "verification/cases/suites/selection.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

RunReport run(Mode mode, int stage, const char* world, DType dtype) {
  VerifyOptions options;
  options.patterns = {"byte_gpt_tiny"};
  options.overrides = [=](RunConfig& config) {
    config.steps = 6;
    config.stages = {stage};
    config.dtypes = {dtype};
    config.worlds = {world};
    config.bucket_numels = {4096};
    config.omp_threads = {1};
  };
  options.implementations = {mode == Mode::free ? Implementation::host_fused
                                                : Implementation::host};
  options.recipes = {"adamw"};
  options.modes = {mode};
  RunReport report =
      run_selection(options, select_cases(options), [](double, const std::string&) {});
  REQUIRE(report.results.size() == 1);
  REQUIRE(report.results.front().status == Status::pass);
  return report;
}

}  // namespace

TEST_CASE("losses: equal parameters result in the reference's losses on any number of ranks") {
  for (const char* world : {"self", "threads:3", "threads:8"}) {
    for (const int stage : {0, 1, 3}) {
      const RunReport report = run(Mode::free, stage, world, DType::fp16);
      const TrainingRun& training = *report.results.front().training;
      REQUIRE(training.losses.size() == 6);  // skipped steps have one too
      REQUIRE(training.skipped_steps == 1);
      CHECK(training.losses == training.reference_losses);
      for (std::size_t i = 0; i < 6; ++i)
        CHECK(training.losses[i] == report.traces.front().steps[i].loss);
    }
  }
}

TEST_CASE("losses: empty in lock-step, where both sides have the same parameters") {
  const RunReport report = run(Mode::lockstep, 1, "threads:2", DType::bf16);
  CHECK(report.results.front().training->losses.empty());
  CHECK(report.results.front().training->reference_losses.empty());
}
