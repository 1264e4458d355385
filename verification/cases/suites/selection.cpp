#include "verification/cases/suites/selection.hpp"

#include <algorithm>
#include <chrono>

#include "common/base/error.hpp"
#include "verification/cases/id_pattern.hpp"
#include "verification/cli/program/capabilities.hpp"
#include "verification/training/ranks/mpi_environment.hpp"

namespace zeroproof::verification {
std::size_t Selection::size() const {
  std::size_t sum = 0;
  for (const auto& part : parts) sum += part.second.size();
  return sum;
}

std::vector<std::string> Selection::ids() const {
  std::vector<std::string> all;
  for (const auto& part : parts) all.insert(all.end(), part.second.begin(), part.second.end());
  return all;
}

const Suite& suite_meant(const std::string& pattern, const Suites& suites) {
  const auto meant = std::find_if(suites.begin() + 1, suites.end(),
                                  [&](const Suite* suite) { return suite->means(pattern); });
  return meant == suites.end() ? *suites.front() : **meant;
}

Selection select_cases(const VerifyOptions& options, const Suites& suites) {
  Selection selection;
  for (const Suite* suite : suites) {
    std::vector<std::string> ids;
    const auto add = [&](const std::string& pattern) {
      const std::vector<std::string> matching = suite->ids(options, pattern);
      if (matching.empty() && !pattern.empty()) selection.unmatched.push_back(pattern);
      for (const std::string& id : matching) {
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
      }
    };
    if (options.patterns.empty()) add("");
    for (const std::string& pattern : options.patterns) {
      if (&suite_meant(pattern, suites) == suite) add(pattern);
    }
    if (!ids.empty()) selection.parts.emplace_back(suite, std::move(ids));
  }
  if (options.patterns.empty() && selection.parts.empty()) selection.unmatched.emplace_back("*");
  return selection;
}

std::string completed_id(const VerifyOptions& options, const std::string& pattern,
                         const Suites& suites) {
  if (is_wild(pattern)) return {};
  std::vector<std::string> parts = id_parts(pattern);
  if (parts.size() > 1 && parts.back().empty()) parts.pop_back();
  if (parts.size() < 2) return {};
  const Suite& suite = suite_meant(pattern, suites);
  try {
    const std::vector<std::string> usual = suite.ids(options, parts.front());
    if (usual.empty()) return {};
    const std::vector<std::string> model = id_parts(usual.front());
    for (std::size_t i = parts.size(); i < model.size(); ++i) parts.push_back(model[i]);
    std::string id = parts.front();
    for (std::size_t i = 1; i < parts.size(); ++i) id += "/" + parts[i];
    return suite.ids(options, id) == std::vector<std::string>{id} ? id : std::string();
  } catch (const Error&) {
    return {};  // a part has an invalid value
  }
}

void check_selection(const VerifyOptions& options, const Selection& selection) {
  for (const auto& [suite, ids] : selection.parts) suite->check(options, ids);
}

RunReport run_selection(const VerifyOptions& options, const Selection& selection,
                        const ProgressSink& progress) {
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& [suite, ids] : selection.parts) {
    ZP_CHECK(suite->spans_processes() || !inside_mpi_job(), ErrorCode::config,
             ids.front() + " cannot run inside an MPI job", "every process would run it again",
             "leave mpirun out");
  }
  check_selection(options, selection);
  RunReport report;
  report.capabilities = capabilities();
  const auto total = static_cast<double>(selection.size());
  double before = 0;
  for (const auto& [suite, ids] : selection.parts) {
    const double share = static_cast<double>(ids.size()) / total;
    report.suites.push_back(suite);
    const std::size_t before_suite = report.results.size();
    suite->run(options, ids, report, [&](double fraction, const std::string& what) {
      progress(before + fraction * share, what);
    });
    if (options.on_results)
      options.on_results(Span<const Result>(report.results).subspan(before_suite));
    before += share;
  }
  progress(1.0, "done");
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace zeroproof::verification
