#pragma once
// What a run has found so far, as a report, for the case that it is ended from outside.

#include <map>
#include <mutex>
#include <string>

#include "verification/cases/run_report.hpp"
#include "verification/cases/suites/selection.hpp"

namespace zeroproof::verification {

class PartialReport {
 public:
  explicit PartialReport(const Selection& selection) : selection_(selection) {}

  /// From any thread; the same result may come twice.
  void add(Span<const Result> results);

  /// Every case that was selected: its result, or an error that says what ended the run. Such a report is never green.
  RunReport ended_by(const std::string& what) const;

 private:
  const Selection& selection_;
  mutable std::mutex mutex_;
  std::map<std::string, Result> results_;
};

}  // namespace zeroproof::verification
