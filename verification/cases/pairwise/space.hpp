#pragma once
// All possible runs: a row has a value of every axis, and the normal checks decide if it can run.

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "verification/cases/pairwise/axis.hpp"
#include "verification/cases/run_plan.hpp"
#include "verification/model/text.hpp"

namespace zeroproof::verification {

/// The value that a row requests of every axis.
using Wanted = std::vector<int>;

/// A possible run.
struct CoveredRow {
  Wanted wanted;
  std::vector<int> values;  ///< value of every axis; -1: the run does not use it
  CaseSpec spec;
};

class RunSpace {
 public:
  /// options: flags and configuration that all runs have. Errors (ErrorCode::config): the workload does not exist.
  RunSpace(VerifyOptions options, std::string workload);

  /// The workload's settings without flags, with the first implementation that can run.
  Wanted defaults() const;

  /// The run of a row, or nothing if it is not allowed; then refusal() returns the reason.
  std::optional<CoveredRow> run_of(const Wanted& wanted) const { return run_with(wanted, {}); }

  /// The same if the run also has these values, {axis, value} each; other runs are not checked.
  std::optional<CoveredRow> run_with(const Wanted& wanted,
                                     const std::vector<std::pair<std::size_t, int>>& needed) const;
  const std::string& refusal() const { return refusal_; }

 private:
  CoveredRun made(const Wanted& wanted) const;
  std::string why_not(const CoveredRun& run) const;
  std::string why_no_layout(const CoveredRun& run) const;

  VerifyOptions options_;
  std::string workload_;
  RunConfig defaults_;
  workload::Text text_;
  mutable std::string refusal_;
  mutable std::map<std::vector<std::int64_t>, std::string>
      layouts_;  // reasons by layout, computed before
};

/// The value of every axis of a run.
std::vector<int> values_of(const CoveredRun& run);

/// The reason why a successful run would prove little, or why a run cannot succeed; "" if neither.
/// Such runs are not refused: the verdict mistrusts them, or the run fails with the reason.
std::string why_pointless(const RunConfig& config);

}  // namespace zeroproof::verification
