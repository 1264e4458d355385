#pragma once
// The cases of recorded steps as a table: a row for each step, a column for each phase.

#include <functional>
#include <string>
#include <vector>

#include "verification/cases/suite.hpp"

namespace zeroproof::verification {

/// A suite whose cases exist when recordings are judged. Its reports have the same phases, in the
/// same order, for every step.
class StepsSuite final : public Suite {
 public:
  struct Columns {
    std::size_t width;                            ///< of a phase, in characters
    std::string legend;                           ///< lines below the table
    std::string (*cell)(const Result&);           ///< the verdict of a phase, or of its worst step
    bool (*alike)(const Result&, const Result&);  ///< two results that did not fail share a row
  };

  StepsSuite(std::string name, Columns columns)
      : name_(std::move(name)), columns_(std::move(columns)) {}

  std::string name() const override { return name_; }
  std::vector<std::string> ids(const VerifyOptions&, const std::string&) const override {
    return {};
  }
  void run(const VerifyOptions&, const std::vector<std::string>&, RunReport&,
           const ProgressSink&) const override {}
  /// Consecutive steps with the same verdicts share a row; the JSON report has every step.
  std::string table(const RunReport& report, const TextStyle& style) const override;

 private:
  std::string name_;
  Columns columns_;
};

}  // namespace zeroproof::verification
