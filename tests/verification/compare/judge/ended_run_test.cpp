// Runs that end at an overflow with the error of on_nonfinite = error: the state is compared after
// it.

#include <doctest.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/verification/compare/judge/judge_support.hpp"
#include "verification/cases/suites/selection.hpp"

namespace ended_run_test {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

namespace {

/// The third step overflows.
void end_at_overflow(RunConfig& config) { config.on_nonfinite = OnNonfinite::error; }

struct Place {
  Phase phase;
  BufferId id;
};

/// Flips the lowest bit of a buffer on the last rank before it reports the error.
class ChangedAtEnd final : public WrappedOptimizer {
 public:
  ChangedAtEnd(std::unique_ptr<DistributedOptimizer> inner, const OptimizerSetup& setup,
               Place place)
      : WrappedOptimizer(std::move(inner), *setup.layout),
        last_(setup.comm->rank() + 1 == setup.comm->world_size()),
        place_(place) {}

  void run_phase(Phase phase, GradSource& leaves) override {
    try {
      inner_->run_phase(phase, leaves);
    } catch (const Error&) {
      if (last_)
        *static_cast<std::uint8_t*>(tests::exposed(*inner_, place_.phase, place_.id)->view.data) ^=
            1U;
      throw;
    }
  }

 private:
  const bool last_;
  const Place place_;
};

Judged judge_changed(TinyTraining& run, const CaseSpec& spec, Place place) {
  const RankComparison::MakeOptimizer changed = [place](const OptimizerSetup& setup) {
    return std::make_unique<ChangedAtEnd>(host_optimizer()(setup), setup, place);
  };
  return judge_case(run, spec, 4, changed, reference_optimizer());
}

}  // namespace

TEST_CASE("ended run: every stage and mode of the host compares the state after the error") {
  VerifyOptions options;
  options.patterns = {"byte_gpt_tiny"};
  options.recipes = {"adamw-idle", "lamb", "fp8-delayed"};
  options.implementations = {Implementation::host, Implementation::host_fused};
  options.modes = {Mode::lockstep, Mode::free, Mode::whole};
  options.overrides = [](RunConfig& config) {
    end_at_overflow(config);
    config.worlds = {"self", "threads:3"};
    config.omp_threads = {1};
  };
  const RunReport report =
      run_selection(options, select_cases(options), [](double, const std::string&) {});
  CHECK(report.results.size() > 100);
  for (const Result& result : report.results) {
    CAPTURE(result.id);
    CAPTURE(result.reason);
    CHECK(result.status == Status::pass);
    CHECK(result.training->steps == 3);
    CHECK(result.training->ended);
  }
}

TEST_CASE("ended run: a change of any state before the error is reported in its buffer") {
  TinyTraining run(DType::fp16, "adamw-idle", end_at_overflow);
  for (const Place place : {Place{Phase::unscale, BufferId::loss_scaler},
                            {Phase::update, BufferId::applied_steps},
                            {Phase::update, BufferId::tensor_steps},
                            {Phase::update, BufferId::exp_avg},
                            {Phase::update, BufferId::exp_avg_sq},
                            {Phase::update, BufferId::master},
                            {Phase::cast, BufferId::param_shard},
                            {Phase::gather, BufferId::param_full}}) {
    CAPTURE(name(place.id));
    for (const Mode mode : {Mode::lockstep, Mode::free}) {
      CaseSpec spec = run.spec(3, 2);
      spec.mode = mode;
      const Judged judged = judge_changed(run, spec, place);
      REQUIRE(judged.first);
      CHECK(judged.first->step == 3);
      CHECK(judged.first->phase == place.phase);
      CHECK(judged.first->buffer == name(place.id));
      CHECK(judged.first->rank == 2);
    }
  }
}

TEST_CASE("ended run: a candidate that goes on is reported, and the run is over") {
  TinyTraining run(DType::fp16, "adamw", end_at_overflow);
  const RankComparison::MakeOptimizer goes_on = [](const OptimizerSetup& setup) {
    OptimizerSetup other = setup;
    other.on_nonfinite = OnNonfinite::skip;
    return host_optimizer()(other);
  };
  const Judged judged = judge_case(run, run.spec(3, 2), 4, goes_on, reference_optimizer());
  CHECK(says(judged, "does not end the run of the candidate"));
  CHECK(judged.first->step == 3);
}

}  // namespace ended_run_test
