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

  /// What the workload runs with when nothing is said, with the first implementation that may run.
  Wanted defaults() const;

  /// The run of a row, or nothing if it may not be; then refusal() says why.
  std::optional<CoveredRow> run_of(const Wanted& wanted) const { return run_with(wanted, {}); }

  /// The same if the run has these values too, {axis, value} each; whether it may be is not asked of others.
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
      layouts_;  // what was said of them before
};

/// What a run has of every axis.
std::vector<int> values_of(const CoveredRun& run);

/// Why a run that ends well would prove little, or cannot end well; "" if it can. Nobody refuses such a run: the
/// verdict mistrusts it, or the run itself says so.
std::string why_pointless(const RunConfig& config);

}  // namespace zeroproof::verification
