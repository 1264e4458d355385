#include "verification/training/resume/resume_suite.hpp"

#include <memory>
#include <tuple>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "verification/report/group_table.hpp"
#include "verification/training/resume/resume_run.hpp"

namespace zeroproof::verification {
namespace {

/// Settings of one half of a case.
RunConfig config_of_half(const VerifyOptions& options, const ResumeCaseSpec& spec,
                         const ResumeCaseSpec::Half& half) {
  VerifyOptions own = options;
  own.overrides = [&](RunConfig& config) {
    options.overrides(config);
    if (spec.steps > 0) config.steps = spec.steps;
  };
  return config_of(own, spec.half(half));
}

class ResumeSuite final : public Suite {
 public:
  std::string name() const override { return "resume"; }

  std::vector<std::string> ids(const VerifyOptions& options,
                               const std::string& pattern) const override {
    std::vector<std::string> ids;
    if (pattern.empty()) return ids;
    ZP_CHECK(options.gradients.empty(), ErrorCode::config,
             "'" + pattern + "' cannot be combined with --gradients",
             "these runs train byte_gpt_tiny", "leave one of the two out");
    for (const ResumeCaseSpec& spec : resume_cases(pattern)) ids.push_back(spec.id());
    return ids;
  }

  void check(const VerifyOptions& options, const std::vector<std::string>& ids) const override {
    for (const std::string& id : ids) {
      const ResumeCaseSpec spec = resume_cases(id).front();
      const CaseSpec before = spec.half(spec.before);
      const RunConfig config = config_of_half(options, spec, spec.before);
      const Experiment experiment(before.workload, config, before.dtype, load_text(config),
                                  before.recipe);
      ZP_CHECK(experiment.config().on_nonfinite != OnNonfinite::error, ErrorCode::config,
               "'" + id + "' has on_nonfinite = error", "it would end at its first overflow",
               "use on_nonfinite = skip or propagate");
      const std::int64_t steps = config_of_half(options, spec, spec.after).steps;
      ZP_CHECK(spec.last_saved < steps, ErrorCode::config,
               "'" + id + "' saves after step " + std::to_string(spec.last_saved) + " of " +
                   std::to_string(steps),
               "no step is left after the save", "save earlier, or use more --steps");
    }
  }

  void run(const VerifyOptions& options, const std::vector<std::string>& ids, RunReport& report,
           const ProgressSink& progress) const override {
    require_fp_environment("the thread that compares resumed runs");
    std::vector<ResumeCaseSpec> cases;
    for (const std::string& id : ids) cases.push_back(resume_cases(id).front());
    std::unique_ptr<Experiment> experiment;
    std::unique_ptr<GradCache> leaves;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      progress(static_cast<double>(i) / static_cast<double>(cases.size()), ids[i]);
      const CaseSpec spec = cases[i].half(cases[i].before);
      const auto shared = [&](const ResumeCaseSpec& other) {
        return std::tie(spec.recipe, spec.dtype, cases[i].steps) ==
               std::tie(other.recipe, other.dtype, other.steps);
      };
      if (i == 0 || !shared(cases[i - 1])) {
        const RunConfig config = config_of_half(options, cases[i], cases[i].before);
        leaves.reset();
        experiment = std::make_unique<Experiment>(spec.workload, config, spec.dtype,
                                                  load_text(config), spec.recipe);
        leaves = std::make_unique<GradCache>(*experiment);
      }
      Result result = judge_resume(cases[i], *experiment, *leaves, options.fault);
      result.replay = replay_line(options, ids[i]);
      report.results.push_back(std::move(result));
    }
  }

  int num_ranks(const std::string& id) const override {
    const ResumeCaseSpec spec = resume_cases(id).front();
    return spec.half(spec.before).world.size + spec.half(spec.after).world.size;
  }

  std::string table(const RunReport& report, const TextStyle& style) const override {
    return group_table(report, name(), "saved, ended, and resumed on other ranks", "recipe",
                       style.colour);
  }

  std::optional<RunConfig> trains_with(const VerifyOptions& options,
                                       const std::string& id) const override {
    const ResumeCaseSpec spec = resume_cases(id).front();
    return config_of_half(options, spec, spec.before);
  }
};

}  // namespace

const Suite& resume_suite() {
  static const ResumeSuite suite;
  return suite;
}

}  // namespace zeroproof::verification
