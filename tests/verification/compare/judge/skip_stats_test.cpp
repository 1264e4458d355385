// Statistics of a skipped step: the tensors that are not finite, each element once, on any owner.

#include <doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "common/comm/self.hpp"
#include "cuda/host/operations.hpp"
#include "tests/verification/compare/judge/judge_support.hpp"
#include "verification/cases/suites/selection.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

// The first tensor is split over TP ranks, the second is replicated on them.
constexpr const char* cut_tensor = "block1.mlp.down.weight";
constexpr const char* replicated_tensor = "block1.mlp.down.bias";

/// byte_gpt_tiny, whose second step of three overflows in one element of a tensor.
std::vector<Result> run_cases(const std::function<void(VerifyOptions&)>& change,
                              const std::function<void(RunConfig&)>& settings = {}) {
  VerifyOptions options;
  options.patterns = {"byte_gpt_tiny"};
  options.recipes = {"adamw"};
  options.overrides = [settings](RunConfig& config) {
    config.steps = 3;
    config.overflow_step = 2;
    config.overflow_tensor = cut_tensor;
    config.stages = {0, 1, 2, 3};
    config.dtypes = {DType::fp32};
    config.worlds = {"self", "threads:3"};
    config.bucket_numels = {4096};
    config.omp_threads = {1};
    if (settings) settings(config);
  };
  options.implementations = {Implementation::host, Implementation::host_fused};
  change(options);
  return run_selection(options, select_cases(options), [](double, const std::string&) {}).results;
}

/// Every case reports step 2 and the one element; returns the report of the first.
SkippedStep check_one_infinity(const std::vector<Result>& results, std::size_t cases,
                               const std::string& tensor = cut_tensor) {
  REQUIRE(results.size() == cases);
  for (const Result& result : results) {
    CAPTURE(result.id);
    CAPTURE(result.reason);
    CHECK(result.status == Status::pass);
    REQUIRE(result.training->skips.size() == 1);
    const SkippedStep& skip = result.training->skips.front();
    CHECK(skip.step == 2);
    CHECK(skip.amax == 0x7F800000U);
    REQUIRE(skip.nonfinite.size() == 1);
    CHECK(skip.nonfinite.front().name == tensor);
    CHECK(skip.nonfinite.front().stats.num_nonfinite == 1);
    CHECK(skip.nonfinite.front().stats.amax == 0x7F800000U);
    CHECK(skip == results.front().training->skips.front());
  }
  return results.front().training->skips.front();
}

/// Counts an element of every tensor twice.
void counts_twice(const Exec& exec, Span<const float> grad, Span<const GradSegment> segments,
                  Span<GradStats> stats) {
  cuda::host::grad_stats(exec, grad, segments, stats);
  cuda::host::grad_stats(exec, grad, segments.first(1), stats);
}

}  // namespace

TEST_CASE("skipped steps: stages, worlds and fused passes report the same statistics") {
  const SkippedStep all = check_one_infinity(run_cases([](VerifyOptions&) {}), 16);
  const TinyTraining tiny(DType::fp32);
  CHECK(all.num_tensors == std::ssize(tiny.experiment.layout().tensors()));
  const auto& tensors = tiny.experiment.layout().tensors();
  const auto tensor = std::ranges::find(tensors, cut_tensor, &TensorSlot::name);
  REQUIRE(tensor != tensors.end());
  CHECK(all.nonfinite.front().numel == tensor->numel);
}

TEST_CASE("skipped steps: a candidate that makes whole steps") {
  check_one_infinity(run_cases([](VerifyOptions& options) { options.modes = {Mode::whole}; },
                               [](RunConfig& config) { config.worlds = {"threads:2"}; }),
                     4);  // only the fused implementation can
}

TEST_CASE("skipped steps: other grids, instances and layouts count each element once") {
  struct Place {
    const char* world;
    const char* grid;
    int instances = 1;
    LayoutKind layout = LayoutKind::contract;
  };
  for (const Place& place :
       {Place{"threads:4", "2x1x2"}, Place{"threads:4", "2x2x1", 2}, Place{"threads:4", "4x1x1", 2},
        Place{"threads:3", "3x1x1", 1, LayoutKind::fsdp2}}) {
    CAPTURE(std::string(place.grid));
    for (const char* tensor : {cut_tensor, replicated_tensor}) {
      const auto set = [place, tensor](RunConfig& config) {
        config.overflow_tensor = tensor;
        config.worlds = {place.world};
        config.grids = {place.grid};
        config.instances = place.instances;
        config.layouts = {place.layout};
        config.stages = {0, 2};
        config.model.width = 20;  // heads that TP ranks can split
        config.model.heads = 4;
        config.optimizer.norm = NormForm::exact;
      };
      check_one_infinity(
          run_cases(
              [](VerifyOptions& options) { options.implementations = {Implementation::host}; },
              set),
          2, tensor);
    }
  }
}

TEST_CASE("skipped steps: native sums are bounded, their statistics are exact") {
  const auto set = [](RunConfig& config) {
    config.worlds = {"threads:3"};
    config.grad_sums = {GradSum::native};
  };
  check_one_infinity(run_cases([](VerifyOptions&) {}, set), 8);
}

TEST_CASE("skipped steps: a run that propagates infinities has none") {
  const std::vector<Result> results =
      run_cases([](VerifyOptions&) {},
                [](RunConfig& config) { config.on_nonfinite = OnNonfinite::propagate; });
  for (const Result& result : results) {
    CHECK(result.training->skipped_steps == 0);
    CHECK(result.training->skips.empty());
  }
}

TEST_CASE("skipped steps: both sides agree but differ from the undistributed optimizer") {
  TinyTraining run(DType::fp32, "adamw", [](RunConfig& config) { config.overflow_step = 1; });
  const CaseSpec spec = run.spec(1, 1);
  const CaseLayout layout(run.experiment, spec, 1);
  const std::unique_ptr<Communicator> comm = make_self_communicator();
  DenseBaseline truth(run.experiment, run.leaves);
  truth.step(1);
  std::vector<float> grad = truth.optimizer().last_step().grad_sum;
  const std::int64_t numel = std::ssize(grad);
  const ExposedBuffer sum{BufferId::grad_sum, {grad.data(), DType::fp32, numel}, {{0, numel}}};
  SkipStats stats(run.experiment, spec, layout, *comm, {}, cuda::host::grad_stats);
  stats.keep(sum, sum);
  CHECK_FALSE(stats.compare(1, &truth.optimizer()).difference);
  grad.front() = std::numeric_limits<float>::infinity();
  stats.keep(sum, sum);
  CHECK_FALSE(stats.compare(1, nullptr).difference);
  const SkipStats::Comparison found = stats.compare(1, &truth.optimizer());
  REQUIRE(found.difference);
  CHECK(found.difference->what.find("undistributed") != std::string::npos);
  CHECK(found.difference->parameter == run.experiment.layout().tensors().front().name);
}

TEST_CASE("skipped steps: a candidate whose statistics differ fails with the place") {
  TinyTraining run(DType::fp32, "adamw", [](RunConfig& config) { config.overflow_step = 2; });
  for (const int stage : {0, 2}) {
    const CaseSpec spec = run.spec(3, stage);
    CHECK_FALSE(judge_case(run, spec, 2, host_optimizer(), reference_optimizer()).first);
    CHECK_FALSE(
        judge_case(run, spec, 1, host_optimizer(), reference_optimizer(), counts_twice).first);
    const Judged judged =
        judge_case(run, spec, 2, host_optimizer(), reference_optimizer(), counts_twice);
    REQUIRE(judged.first);
    CHECK(judged.first->step == 2);
    CHECK(judged.first->buffer == "grad_stats");
    CHECK(judged.first->parameter == run.experiment.layout().tensors().front().name);
    CHECK(says(judged, "differs from the reference"));
    CHECK(judged.first->candidate_value != judged.first->reference_value);
  }
}
