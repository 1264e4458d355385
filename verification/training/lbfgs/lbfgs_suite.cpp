#include "verification/training/lbfgs/lbfgs_suite.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/id_pattern.hpp"
#include "verification/report/group_table.hpp"
#include "verification/training/lbfgs/lbfgs_case.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* settings_of = "byte_gpt_tiny";  // the workload of the settings

class LbfgsSuite final : public Suite {
 public:
  std::string name() const override { return "lbfgs"; }

  std::vector<std::string> ids(const VerifyOptions& options,
                               const std::string& pattern) const override {
    std::vector<std::string> ids;
    if (pattern.empty()) return ids;
    ZP_CHECK(options.gradients.empty(), ErrorCode::config,
             "'" + pattern + "' cannot be combined with --gradients",
             "L-BFGS evaluates the model at points without recorded gradients",
             "leave one of the two out");
    for (const LbfgsCaseSpec& spec : lbfgs_cases(pattern)) {
      if (options.wants(Implementation::host)) ids.push_back(spec.id());
    }
    return ids;
  }

  void check(const VerifyOptions& options, const std::vector<std::string>& ids) const override {
    const RunConfig config = config_of(options, settings_of);
    const auto trains = [](const std::string& id) { return id_parts(id)[1] == settings_of; };
    if (std::any_of(ids.begin(), ids.end(), trains)) load_text(config);
  }

  void run(const VerifyOptions& options, const std::vector<std::string>& ids, RunReport& report,
           const ProgressSink& progress) const override {
    LbfgsRunOptions run;
    run.config = config_of(options, settings_of);
    run.fault = options.fault;
    run.replay_line = [&](const std::string& id) { return replay_line(options, id); };
    run.progress = progress;
    std::vector<LbfgsCaseSpec> cases;
    for (const std::string& id : ids) cases.push_back(lbfgs_cases(id).front());
    for (Result& result : run_lbfgs_cases(cases, run)) report.results.push_back(std::move(result));
  }

  int num_ranks(const std::string& id) const override { return lbfgs_cases(id).front().world.size; }

  std::string table(const RunReport& report, const TextStyle& style) const override {
    return group_table(report, name(), "L-BFGS on one rank and over ranks", "workload and recipe",
                       style.colour);
  }

  std::optional<RunConfig> trains_with(const VerifyOptions& options,
                                       const std::string&) const override {
    return config_of(options, settings_of);
  }
};

}  // namespace

const Suite& lbfgs_suite() {
  static const LbfgsSuite suite;
  return suite;
}

}  // namespace zeroproof::verification
