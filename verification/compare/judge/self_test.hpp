#pragma once
// What both sides share cannot be seen by comparing them: small trajectories, and tables of what they are made of,
// against digests that were committed with the source.

#include <functional>
#include <string>
#include <vector>

#include "common/base/digest.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// One thing that is computed and digested in every self-test.
struct SelfTestRow {
  std::string name;
  std::function<Digest()> compute;
};

/// The rows that train byte_gpt_tiny on this text: recipes by the undistributed optimizer, then grids by the reference.
std::vector<SelfTestRow> self_test_trajectories(const workload::Text& text);

/// The rows that need no training: formats, schedules, fp64 functions, random words, who owns which elements.
std::vector<SelfTestRow> self_test_tables();

/// Hexadecimal digest committed for a row, "" if there is none.
std::string committed_digest(const std::string& row);

/// Computes all rows and compares them. A row that throws differs. Not run, and says so, where the sample text that
/// belongs to the source cannot be read.
SelfTest run_self_test();

/// The same with rows of one's own.
SelfTest run_self_test(const std::vector<SelfTestRow>& rows);

}  // namespace zeroproof::verification
