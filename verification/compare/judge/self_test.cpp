#include "verification/compare/judge/self_test.hpp"

#include <map>

#include "common/base/error.hpp"
#include "verification/compare/judge/committed_digests.hpp"

namespace zeroproof::verification {

std::string committed_digest(const std::string& row) {
  for (const auto& [name, digest] : committed_digests) {
    if (row == name) return digest;
  }
  return {};
}

SelfTest run_self_test(const std::vector<SelfTestRow>& rows) {
  SelfTest result;
  for (const SelfTestRow& row : rows) {
    ++result.rows;
    try {
      if (to_hex(row.compute()) == committed_digest(row.name)) continue;
      result.differing.push_back(row.name);
    } catch (const std::exception& error) {
      result.differing.push_back(row.name + " (" + error.what() + ")");
    }
  }
  return result;
}

SelfTest run_self_test() {
  std::vector<SelfTestRow> rows = self_test_tables();
  try {
    for (SelfTestRow& row : self_test_trajectories(load_text(workload_defaults("byte_gpt_tiny")))) {
      rows.push_back(std::move(row));
    }
  } catch (const Error& error) {
    return {0, {}, error.what()};
  }
  return run_self_test(rows);
}

}  // namespace zeroproof::verification
