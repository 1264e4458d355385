#pragma once
// Phase rate: the recorded learning rate of each step against a schedule.

#include <string>

#include "common/step/param_groups.hpp"
#include "verification/tools/judge_run/recording.hpp"
#include "verification/tools/judge_run/run_findings.hpp"

namespace zeroproof::verification {

/// optimizer.lr, [schedule] and [[param_group]] of a configuration (R20).
class RunSchedule {
 public:
  /// Errors (ErrorCode::config): as apply_toml_file and validate, a setting that no rate depends on, no rate at all.
  explicit RunSchedule(const std::string& file);

  /// The rate of every recorded group against that of its parameters, within the rounding to fp32. A skipped step has
  /// none. Errors (ErrorCode::config): a group of the schedule that no recorded parameter is in, a table of rates that
  /// is shorter than the recording.
  RunFindings judge(const RunStep& step) const;

 private:
  double rate(const ParamGroups& groups, int group, std::int64_t t,
              std::int64_t micro_batches) const;
  std::string hint(const ParamGroups& groups, int group, const RunStep& step, std::int64_t t,
                   std::int64_t micro_batches, double got) const;

  std::string file_;
  OptimizerHyper hyper_;
  std::vector<GroupRule> rules_;
  ScheduleConfig schedule_;
};

}  // namespace zeroproof::verification
