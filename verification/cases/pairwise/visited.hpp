#pragma once
// Coverage of the possible values, pairs and triples of groups by a set of cases.

#include <string>
#include <vector>

#include "common/io/json.hpp"
#include "verification/cases/pairwise/combination_table.hpp"
#include "verification/cases/run_plan.hpp"
#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

struct Coverage {
  std::size_t cases = 0;
  CombinationTable visited;
  CombinationTable
      possible;  ///< of runs of byte_gpt_tiny on this machine, and visited combinations
};

/// Coverage of training cases under the options they are run with, with counts up to a strength.
Coverage coverage_of(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                     Strength strength = Strength::triples);

/// A line for every axis with the values that no case has, and one for every group of axes, at most
/// 100 columns wide.
std::string coverage_text(const Coverage& coverage);

/// Every axis, with its pairs with those before it.
std::vector<VisitedAxis> axis_matrix(const Coverage& coverage);

/// The same, and every pair and triple that no case has; schema "zeroproof-coverage/1".
Json coverage_json(const Coverage& coverage);

}  // namespace zeroproof::verification
