#include "verification/comm/comm_suite.hpp"

#include "verification/cases/experiment.hpp"
#include "verification/comm/comm_run.hpp"
#include "verification/report/group_table.hpp"

namespace zeroproof::verification {
namespace {

class CommSuite final : public Suite {
 public:
  std::string name() const override { return "comm"; }

  std::vector<std::string> ids(const VerifyOptions&, const std::string& pattern) const override {
    std::vector<std::string> ids;
    if (pattern.empty()) return ids;
    for (const CommCaseSpec& spec : comm_cases(pattern)) ids.push_back(spec.id());
    return ids;
  }

  void run(const VerifyOptions& options, const std::vector<std::string>& ids, RunReport& report,
           const ProgressSink& progress) const override {
    const RunConfig config = config_of(options, workload_names().front());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      progress(static_cast<double>(i) / static_cast<double>(ids.size()), ids[i]);
      Result result =
          judge_comm(comm_cases(ids[i]).front(), config.seed, config.comm_timeout_s, options.fault);
      result.replay = replay_line(options, ids[i]);
      report.results.push_back(std::move(result));
    }
  }

  int num_ranks(const std::string& id) const override { return comm_cases(id).front().world.size; }

  bool spans_processes() const override { return true; }

  std::string table(const RunReport& report, const TextStyle& style) const override {
    return group_table(report, name(), "collectives", "collective", style.colour,
                       "their definitions");
  }
};

}  // namespace

const Suite& comm_suite() {
  static const CommSuite suite;
  return suite;
}

}  // namespace zeroproof::verification
