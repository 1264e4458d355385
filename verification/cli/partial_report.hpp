#pragma once
// The results of a run so far, as a report, in case it is ended from outside.

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

  /// Every selected case: its result, or an error with the reason for the end of the run. Such a
  /// report never has exit code 0.
  RunReport ended_by(const std::string& what) const;

 private:
  const Selection& selection_;
  mutable std::mutex mutex_;
  std::map<std::string, Result> results_;
};

}  // namespace zeroproof::verification
