// The number of master elements that a run moved, in runs whose numbers are known in advance.

#include <doctest.h>

#include "verification/cases/suites/selection.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// One case of byte_gpt_tiny in fp32 on three ranks, and the undistributed run.
struct Run {
  Run(std::int64_t steps, std::int64_t overflow_step, OnNonfinite on_nonfinite, int stage,
      double max_norm = 0) {
    VerifyOptions options;
    options.patterns = {"byte_gpt_tiny"};
    options.overrides = [=](RunConfig& config) {
      config.steps = steps;
      config.overflow_step = overflow_step;
      config.on_nonfinite = on_nonfinite;
      config.stages = {stage};
      config.dtypes = {DType::fp32};
      config.worlds = {"threads:3"};
      config.bucket_numels = {4096};
      config.omp_threads = {1};
      config.optimizer.max_norm = max_norm;
    };
    options.implementations = {Implementation::host};
    options.recipes = {"adamw"};
    report = run_selection(options, select_cases(options), [](double, const std::string&) {});
    REQUIRE(report.results.size() == 1);
    parameters = report.traces.at(0).parameters;
  }
  const Result& result() const { return report.results.front(); }
  const TrainingRun& training() const { return *result().training; }

  RunReport report;
  std::int64_t parameters = 0;
};

}  // namespace

TEST_CASE("moved elements: skipped steps and the loaded state do not count") {
  const Run run(2, 1, OnNonfinite::skip, 1);
  CHECK(run.training().skipped_steps == 1);
  CHECK(run.training().updated_elements == run.parameters);  // every shard once, no padding
  CHECK(10 * run.training().moved_elements > 9 * run.parameters);
  CHECK(run.training().nan_elements == 0);
  CHECK(run.result().status == Status::pass);
}

TEST_CASE("moved elements: every rank has all of them in stage 0") {
  const Run run(2, 0, OnNonfinite::skip, 0);
  CHECK(run.training().updated_elements == 2 * 3 * run.parameters);
}

TEST_CASE("moved elements: NaN elements do not move") {
  const Run early(3, 1, OnNonfinite::propagate, 2);
  CHECK(early.training().updated_elements == 3 * early.parameters);
  CHECK(early.training().nan_elements > 0);
  const Run late(3, 3, OnNonfinite::propagate, 2);
  CHECK(late.training().nan_elements == 0);
  CHECK(late.result().status == Status::pass);
  CHECK(late.training().moved_elements > early.training().moved_elements);
}

TEST_CASE("moved elements: a step with an infinite norm that is propagated does not count") {
  const Run run(3, 2, OnNonfinite::propagate, 1, 0.05);
  CHECK(run.training().updated_elements == 2 * run.parameters);
  CHECK(run.result().status == Status::pass);
}
