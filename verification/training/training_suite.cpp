#include "verification/training/training_suite.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/training/bytes_table.hpp"
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
    std::vector<CaseSpec> cases;
    for (const std::string& id : ids) cases.push_back(case_of(id));
    const auto takes_order = [](const CaseSpec& spec) {
      return spec.implementation.foreign && spec.mode == Mode::lockstep;
    };
    ZP_CHECK(!options.any_order || cases.empty() || std::ranges::any_of(cases, takes_order),
             ErrorCode::config, "--accept any-order was given for steps that are compared in bits",
             "it applies to plug-ins in lock-step", "use --mode lockstep, or leave it out");
    check_training(options, cases);
  }

  void run(const VerifyOptions& options, const std::vector<std::string>& ids, RunReport& report,
           const ProgressSink& progress) const override {
    std::vector<CaseSpec> cases;
    for (const std::string& id : ids) cases.push_back(case_of(id));
    run_training(options, cases, report, progress);
  }

  std::string table(const RunReport& report, const TextStyle& style) const override {
    return (style.rows ? training_table(report, style.colour) : std::string()) +
           training_screen(report, style.colour) +
           (style.bytes ? bytes_table(report, style.colour) : std::string());
  }

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
