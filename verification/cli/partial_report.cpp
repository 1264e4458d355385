#include "verification/cli/partial_report.hpp"

#include <algorithm>

#include "verification/cases/id_pattern.hpp"

namespace zeroproof::verification {
namespace {

Result unfinished(const std::string& suite, const std::string& id, const std::string& what) {
  Result result;
  if (const auto spec = suite == "training" ? parse_case_id(id) : std::nullopt) {
    result = training_result(*spec);
  } else {
    const std::vector<std::string> parts = id_parts(id);
    result.id = id;
    result.suite = suite;
    result.group = parts[std::min<std::size_t>(1, parts.size() - 1)];
    result.side = parts[std::min<std::size_t>(2, parts.size() - 1)];
  }
  result.status = Status::error;
  result.reason =
      "not finished: the run was ended by " + what + " (this case has no verdict); run it again";
  return result;
}

}  // namespace

void PartialReport::add(Span<const Result> results) {
  const std::lock_guard lock(mutex_);
  for (const Result& result : results) results_.emplace(result.id, result);
}

RunReport PartialReport::ended_by(const std::string& what) const {
  const std::lock_guard lock(mutex_);
  RunReport report;
  report.capabilities = capabilities();
  report.self_test = SelfTest{0, {}, "the run was ended by " + what};
  for (const auto& [suite, ids] : selection_.parts) {
    report.suites.push_back(suite);
    for (const std::string& id : ids) {
      const auto found = results_.find(id);
      report.results.push_back(found != results_.end() ? found->second
                                                       : unfinished(suite->name(), id, what));
    }
  }
  return report;
}

}  // namespace zeroproof::verification
