#include "verification/cases/suites/selection.hpp"

#include <algorithm>
#include <chrono>

#include "common/base/error.hpp"
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
      for (const std::string& id : suite->ids(options, pattern)) {
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
      }
    };
    if (options.patterns.empty()) add("");
    for (const std::string& pattern : options.patterns) {
      if (&suite_meant(pattern, suites) == suite) add(pattern);
    }
    if (!ids.empty()) selection.parts.emplace_back(suite, std::move(ids));
  }
  return selection;
}

RunReport run_selection(const VerifyOptions& options, const Selection& selection,
                        const ProgressSink& progress) {
  const auto begin = std::chrono::steady_clock::now();
  for (const auto& [suite, ids] : selection.parts) {
    ZP_CHECK(suite->spans_processes() || !inside_mpi_job(), ErrorCode::config,
             ids.front() + " cannot run inside an MPI job", "every process would run it again",
             "leave mpirun out");
  }
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
