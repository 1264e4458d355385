#pragma once
// Coverage of the possible values and pairs by a set of cases.

#include <string>
#include <vector>

#include "common/io/json.hpp"
#include "verification/cases/pairwise/pair_table.hpp"
#include "verification/cases/run_plan.hpp"
#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

struct Coverage {
  std::size_t cases = 0;
  PairTable visited;
  PairTable possible;  ///< of runs of byte_gpt_tiny on this machine, and visited pairs
};

/// Coverage of training cases under the options they are run with.
Coverage coverage_of(const VerifyOptions& options, const std::vector<CaseSpec>& cases);

/// A line for every axis with the values that no case has, at most 100 columns wide.
std::string coverage_text(const Coverage& coverage);

/// Every axis, with its pairs with those before it.
std::vector<VisitedAxis> axis_matrix(const Coverage& coverage);

/// The same, and every pair that no case has; schema "zeroproof-coverage/1".
Json coverage_json(const Coverage& coverage);

}  // namespace zeroproof::verification
