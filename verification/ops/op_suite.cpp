#include "verification/ops/op_suite.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/ops/op_case.hpp"
#include "verification/report/group_table.hpp"

namespace zeroproof::verification {
namespace {

std::vector<const OpCandidate*> others(const VerifyOptions& options) {
  if (!options.plugin) return {};
  return {options.plugin.get()};
}

class OpSuite final : public Suite {
 public:
  std::string name() const override { return "op"; }

  bool means(const std::string& pattern) const override {
    return Suite::means(pattern) || find_op(pattern) != nullptr;
  }

  std::vector<std::string> words() const override {
    std::vector<std::string> words = {"op"};
    for (const Op& op : all_ops()) words.push_back(op.name);
    return words;
  }

  std::vector<std::string> ids(const VerifyOptions& options,
                               const std::string& pattern) const override {
    std::vector<std::string> ids;
    if (pattern.empty()) return ids;
    for (const OpCaseSpec& spec : op_cases(pattern, others(options))) {
      if (options.wants(spec.candidate->kind())) ids.push_back(spec.id());
    }
    return ids;
  }

  void check(const VerifyOptions& options, const std::vector<std::string>& ids) const override {
    if (options.fp32_powers && !ids.empty()) {
      const auto corrects = [&](const std::string& id) {
        return op_cases(id, others(options)).front().op->corrects_bias;
      };
      ZP_CHECK(std::ranges::any_of(ids, corrects), ErrorCode::config,
               "--accept fp32-powers was given for " + ids.front(),
               "it applies to updates with a bias correction", "use --accept any-order");
    }
    const std::uint64_t seed = config_of(options, workload_names().front()).seed;
    ZP_CHECK(options.second_seed != seed, ErrorCode::config,
             "--second-seed is " + std::to_string(seed) + ", which is also the first seed",
             "the same inputs twice show nothing new", "use another number");
  }

  void run(const VerifyOptions& options, const std::vector<std::string>& ids, RunReport& report,
           const ProgressSink& progress) const override {
    OpRunOptions run;
    run.seed = config_of(options, workload_names().front()).seed;
    run.fault = options.fault;
    run.any_order = options.any_order;
    run.fp32_powers = options.fp32_powers;
    run.second_seed = options.second_seed;
    run.accepts_declined = options.accepts_declined;
    run.expectation = options.expectation.get();
    const std::string seed =
        options.second_seed ? " --second-seed " + std::to_string(*options.second_seed) : "";
    run.replay_line = [&](const std::string& id) { return replay_line(options, id) + seed; };
    run.progress = progress;
    run.finished = options.on_results;
    std::vector<OpCaseSpec> cases;
    for (const std::string& id : ids) cases.push_back(op_cases(id, others(options)).front());
    if (options.second_seed)
      report.notes.push_back("the plug-in also got inputs of a second seed," + seed);
    for (Result& result : run_op_cases(cases, run)) report.results.push_back(std::move(result));
  }

  std::string table(const RunReport& report, const TextStyle& style) const override {
    return group_table(report, name(), "operations", "operation", style.colour);
  }
};

}  // namespace

const Suite& op_suite() {
  static const OpSuite suite;
  return suite;
}

}  // namespace zeroproof::verification
