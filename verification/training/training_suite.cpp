#include "verification/training/training_suite.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

#include "common/base/error.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/training/bytes_table.hpp"
#include "verification/training/ranks/mpi_environment.hpp"
#include "verification/training/training_run.hpp"
#include "verification/training/training_screen.hpp"
#include "verification/training/training_table.hpp"

namespace zeroproof::verification {
namespace {

/// The case of a complete id.
CaseSpec case_of(const std::string& id) {
  const std::optional<CaseSpec> spec = parse_case_id(id);
  ZP_CHECK(spec.has_value(), ErrorCode::internal,
           "'" + id + "' is not a complete id of a training case", "only complete ids can run",
           "select cases first");
  return *spec;
}

bool agrees(const Result& result) {
  return result.status == Status::pass || result.status == Status::mistrusted;
}

/// The same run from other parameters on other data.
VerifyOptions with_seed(const VerifyOptions& options, std::uint64_t seed) {
  VerifyOptions other = options;
  other.overrides = [first = options.overrides, seed](RunConfig& config) {
    first(config);
    config.seed = seed;
  };
  auto& flags = other.replay_flags;  // also those of MPI jobs
  const auto flag = std::ranges::find(flags, "--seed");
  if (flag == flags.end()) {
    flags.insert(flags.end(), {"--seed", std::to_string(seed)});
  } else {
    *std::next(flag) = std::to_string(seed);
  }
  other.on_verdicts = nullptr;
  other.on_results = nullptr;
  return other;
}

/// Runs the cases, and those of a plug-in once more with the second seed: results known by heart do
/// not pass. Its verdicts are announced after both runs.
void run_with_second_seed(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                          RunReport& report, const ProgressSink& progress) {
  const auto runs_again = [](const Result& result) {
    return agrees(result) && training_spec(result).implementation.foreign;
  };
  const auto announced_now = [&](const std::function<void(Span<const Result>)>& sink) {
    return [&sink, runs_again](Span<const Result> results) {
      std::vector<Result> final_ones;
      std::ranges::copy_if(results, std::back_inserter(final_ones), std::not_fn(runs_again));
      if (sink && !final_ones.empty()) sink(final_ones);
    };
  };
  VerifyOptions first = options;
  first.on_verdicts = announced_now(options.on_verdicts);
  first.on_results = announced_now(options.on_results);
  const std::size_t begin = report.results.size();
  run_training(first, cases, report,
               [&](double fraction, const std::string& what) { progress(0.5 * fraction, what); });

  const Span<Result> results = Span<Result>(report.results).subspan(begin);
  std::vector<CaseSpec> again;
  for (const Result& result : results) {
    if (runs_again(result)) again.push_back(training_spec(result));
  }
  if (again.empty()) return;
  const std::string flag = "--second-seed " + std::to_string(*options.second_seed);
  RunReport second;
  run_training(
      with_seed(options, *options.second_seed), again, second,
      [&](double fraction, const std::string& what) { progress(0.5 + 0.5 * fraction, what); });
  report.notes.push_back("the plug-in also trained with a second seed, " + flag);
  std::vector<Result> verdicts;
  for (Result& result : results) {
    if (!runs_again(result)) continue;
    const auto other = std::ranges::find(second.results, result.id, &Result::id);
    ZP_CHECK(other != second.results.end(), ErrorCode::internal,
             result.id + " has no result of the training with the second seed",
             "its first result alone proves too little", "report it with the command line");
    if (!agrees(*other)) {
      const std::string replay = result.replay + " " + flag;
      const std::string where = "in the training with the second seed";
      result = *other;
      result.replay = replay;
      if (result.divergence) {
        result.divergence->what += ", " + where;
        result.reason = describe(*result.divergence);
      } else {
        result.reason = where + ": " + result.reason;
      }
    }
    verdicts.push_back(result);
  }
  if (options.on_verdicts) options.on_verdicts(verdicts);
  if (options.on_results) options.on_results(verdicts);
}

class TrainingSuite final : public Suite {
 public:
  std::string name() const override { return "training"; }

  std::vector<std::string> words() const override { return workload_names(); }

  std::vector<std::string> ids(const VerifyOptions& options,
                               const std::string& pattern) const override {
    std::vector<std::string> ids;
    for (const CaseSpec& spec : cases_matching(options, pattern)) ids.push_back(spec.id());
    return ids;
  }

  void check(const VerifyOptions& options, const std::vector<std::string>& ids) const override {
    ZP_CHECK(options.expectation == nullptr || ids.empty(), ErrorCode::config,
             "--accept dialect:... was given with training cases",
             "their steps are compared with the contract's", "use any-order, or an operation");
    ZP_CHECK(!options.fp32_powers || ids.empty(), ErrorCode::config,
             "--accept fp32-powers was given with training cases",
             "it applies to single calls of an update", "use any-order, or an operation");
    std::vector<CaseSpec> cases;
    for (const std::string& id : ids) cases.push_back(case_of(id));
    const auto takes_order = [](const CaseSpec& spec) {
      return spec.implementation.foreign && spec.mode == Mode::lockstep;
    };
    ZP_CHECK(!options.any_order || cases.empty() || std::ranges::any_of(cases, takes_order),
             ErrorCode::config, "--accept any-order was given for steps that are compared in bits",
             "it applies to plug-ins in lock-step", "use --mode lockstep, or leave it out");
    for (const CaseSpec& spec : cases) {
      const std::uint64_t seed = config_of(options, spec).seed;
      ZP_CHECK(options.second_seed != seed, ErrorCode::config,
               "--second-seed is " + std::to_string(seed) + ", which is also the first seed",
               "the same run twice shows nothing new", "use another number");
    }
    check_training(options, cases);
  }

  void run(const VerifyOptions& options, const std::vector<std::string>& ids, RunReport& report,
           const ProgressSink& progress) const override {
    std::vector<CaseSpec> cases;
    for (const std::string& id : ids) cases.push_back(case_of(id));
    // Recorded gradients are those of one run. Under an mpirun of the user's own, every rank would
    // draw another seed.
    const bool once = !options.second_seed || !options.gradients.empty() || inside_mpi_job();
    once ? run_training(options, cases, report, progress)
         : run_with_second_seed(options, cases, report, progress);
  }

  std::string table(const RunReport& report, const TextStyle& style) const override {
    return (style.rows ? training_table(report, style.colour) : std::string()) +
           training_screen(report, style.colour) +
           (style.bytes ? bytes_table(report, style.colour) : std::string());
  }

  int num_ranks(const std::string& id) const override { return case_of(id).world.size; }

  bool spans_processes() const override { return true; }

  std::optional<RunConfig> trains_with(const VerifyOptions& options,
                                       const std::string& id) const override {
    return config_of(options, case_of(id));
  }
};

}  // namespace

const Suite& training_suite() {
  static const TrainingSuite suite;
  return suite;
}

}  // namespace zeroproof::verification
