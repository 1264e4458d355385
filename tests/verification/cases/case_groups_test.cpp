// Groups of cases that run concurrently: the report must not depend on it.

#include <doctest.h>

#include <set>

#include "common/base/error.hpp"
#include "verification/cases/suites/selection.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// Cases of byte_gpt_tiny: three recipes and dtypes, which form groups.
VerifyOptions some_cases(int jobs) {
  VerifyOptions options;
  options.patterns = {"byte_gpt_tiny"};
  options.recipes = {"adamw", "sgd"};
  options.implementations = {Implementation::host, Implementation::host_fused};
  options.jobs = jobs;
  options.overrides = [](RunConfig& config) {
    config.steps = 4;
    config.worlds = {"self", "threads:3"};
    config.stages = {1, 2};
  };
  return options;
}

RunReport run(
    const VerifyOptions& options,
    const ProgressSink& progress = [](double, const std::string&) {}) {
  return run_selection(options, select_cases(options), progress);
}

/// All fields of a result except times.
std::string shown(const Result& result) {
  const TrainingRun& training = *result.training;
  std::string text = result.id + " " + std::string(name(result.status)) + " " + result.reason +
                     " " + std::to_string(result.compared) + " " +
                     std::to_string(training.moved_elements);
  if (training.candidate_hash) text += " " + to_hex(*training.candidate_hash);
  for (const PhaseTally& tally : training.tallies) text += " " + std::to_string(tally.compared);
  return text;
}

std::vector<std::string> shown(const RunReport& report) {
  std::vector<std::string> lines;
  for (const Result& result : report.results) lines.push_back(shown(result));
  for (const TrainingTrace& trace : report.traces)
    lines.push_back(trace.recipe + " " + std::string(name(trace.dtype)) + " " +
                    to_hex(*trace.hash));
  return lines;
}

}  // namespace

TEST_CASE("case groups: the report does not depend on concurrency") {
  const RunReport one = run(some_cases(1));
  CHECK(one.results.size() == select_cases(some_cases(1)).size());
  CHECK(one.count(Status::pass) == static_cast<std::int64_t>(one.results.size()));
  CHECK(one.traces.size() >= 3);
  for (const int jobs : {2, 5}) CHECK(shown(run(some_cases(jobs))) == shown(one));
}

TEST_CASE("case groups: the first verdict comes before all others, and every case has one") {
  for (const int jobs : {1, 4}) {
    VerifyOptions options = some_cases(jobs);
    std::vector<std::vector<std::string>> batches;
    options.on_verdicts = [&](Span<const Result> results) {
      auto& ids = batches.emplace_back();
      for (const Result& result : results) ids.push_back(result.id);
    };
    double before = 0;
    bool forward = true;
    const RunReport report = run(options, [&](double fraction, const std::string&) {
      forward = forward && fraction >= before && fraction <= 1.0;
      before = fraction;
    });
    CHECK(forward);
    CHECK(before == 1.0);
    REQUIRE(!batches.empty());
    CHECK(batches.front() == std::vector<std::string>{report.results.front().id});
    std::multiset<std::string> all, reported;
    for (const auto& ids : batches) all.insert(ids.begin(), ids.end());
    for (const Result& result : report.results) reported.insert(result.id);
    CHECK(all == reported);
  }
}

TEST_CASE("case groups: an error in one case does not affect others") {
  VerifyOptions options = some_cases(3);
  const RunReport whole = run(options);
  // The time limit is too short for thread ranks to meet; the test accepts any of them as late.
  const auto overrides = options.overrides;
  options.overrides = [overrides](RunConfig& config) {
    overrides(config);
    config.comm_timeout_s = 1e-3;
  };
  const RunReport broken = run(options);
  REQUIRE(broken.results.size() == whole.results.size());
  int hung = 0;
  for (std::size_t i = 0; i < whole.results.size(); ++i) {
    CHECK(broken.results[i].id == whole.results[i].id);
    if (training_spec(whole.results[i]).world.kind == WorldSpec::Kind::self)
      CHECK(shown(broken.results[i]) == shown(whole.results[i]));
    // Only the result of a hung case contains the last collectives of its ranks.
    const std::size_t flights =
        broken.results[i].status == Status::hung
            ? static_cast<std::size_t>(training_spec(broken.results[i]).world.size)
            : 0;
    CHECK(broken.results[i].flights.size() == flights);
    hung += flights > 0 ? 1 : 0;
  }
  CHECK(hung > 0);
}
