#pragma once
// A suite: cases of one kind. Everything the harness compares is a case of one, and whoever selects, runs, lists,
// reports, saves or repeats cases knows nothing of them but this.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "verification/cases/run_plan.hpp"
#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// Called as a run goes on; fraction in [0, 1].
using ProgressSink = std::function<void(double fraction, const std::string& what)>;

class Suite {
 public:
  virtual ~Suite() = default;

  /// "op": of the results, and in most suites the first part of every id.
  virtual std::string name() const = 0;

  /// True if a pattern means cases of this suite. By default: it is the name, or begins with "name/".
  virtual bool means(const std::string& pattern) const;

  /// Single words that mean cases of this suite, for hints.
  virtual std::vector<std::string> words() const { return {name()}; }

  /// Complete ids of the cases a pattern selects; "" is what a run without any pattern has of this suite. Every id
  /// selects itself. Errors (ErrorCode::config): a part that does not exist, settings that cannot be used.
  virtual std::vector<std::string> ids(const VerifyOptions& options,
                                       const std::string& pattern) const = 0;

  /// Runs cases, all at once so that what several need is made once, and appends their results in the order of the ids
  /// (or grouped by what they share), each with its status: a case that cannot run is skipped, one that breaks is an
  /// error.
  /// Errors: ErrorCode::config for settings or inputs that cannot be used, before anything runs.
  virtual void run(const VerifyOptions& options, const std::vector<std::string>& ids,
                   RunReport& report, const ProgressSink& progress) const = 0;

  /// The suite's part of the text report: tables of what passed; failures are not its business. "" if it has no
  /// results.
  virtual std::string table(const RunReport& report, const TextStyle& style) const = 0;

  /// True if the processes of an MPI job can be ranks of its cases.
  virtual bool spans_processes() const { return false; }

  /// Settings of a case that trains on a text or on recorded gradients, which a saved failure has to take along.
  virtual std::optional<RunConfig> trains_with(const VerifyOptions& /*options*/,
                                               const std::string& /*id*/) const {
    return std::nullopt;
  }
};

}  // namespace zeroproof::verification
