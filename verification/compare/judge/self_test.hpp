#pragma once
// Errors in code that both sides share are not found by comparing them. The self-test compares
// small trajectories and tables of this code with digests committed with the source.

#include <functional>
#include <string>
#include <vector>

#include "common/base/digest.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// One computation whose result is digested in every self-test.
struct SelfTestRow {
  std::string name;
  std::function<Digest()> compute;
};

/// The rows that train byte_gpt_tiny on this text: recipes by the undistributed optimizer, then grids by the reference.
std::vector<SelfTestRow> self_test_trajectories(const workload::Text& text);

/// The rows without training: formats, schedules, fp64 functions, random words, ownership of
/// elements.
std::vector<SelfTestRow> self_test_tables();

/// Hexadecimal digest committed for a row, "" if there is none.
std::string committed_digest(const std::string& row);

/// Computes all rows and compares them. A row that throws counts as different. If the committed
/// sample text cannot be read, the test does not run and reports it.
SelfTest run_self_test();

/// The same with other rows.
SelfTest run_self_test(const std::vector<SelfTestRow>& rows);

}  // namespace zeroproof::verification
