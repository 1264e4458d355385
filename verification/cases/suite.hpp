#pragma once
// A suite: cases of one kind. Every comparison of the harness is a case of a suite; code that
// selects, runs, lists, reports, saves or repeats cases uses only this interface.

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

  /// True if a pattern selects cases of this suite. By default: it is the name, or begins with
  /// "name/".
  virtual bool means(const std::string& pattern) const;

  /// Single words that select cases of this suite, for hints.
  virtual std::vector<std::string> words() const { return {name()}; }

  /// Complete ids of the cases a pattern selects; "" selects the default cases of this suite. Every
  /// id selects itself. Errors (ErrorCode::config): a part that does not exist, settings that
  /// cannot be used.
  virtual std::vector<std::string> ids(const VerifyOptions& options,
                                       const std::string& pattern) const = 0;

  /// Checks the settings and inputs of selected cases. Errors: ErrorCode::config if one cannot be
  /// used.
  virtual void check(const VerifyOptions& /*options*/,
                     const std::vector<std::string>& /*ids*/) const {}

  /// Runs all cases together, so that shared inputs are computed once, and appends their results in
  /// the order of the ids (or grouped by shared inputs), each with its status: a case that cannot
  /// run is skipped, one that throws is an error. check() has passed.
  virtual void run(const VerifyOptions& options, const std::vector<std::string>& ids,
                   RunReport& report, const ProgressSink& progress) const = 0;

  /// The suite's part of the text report: tables of passes, without failures. "" if it has no
  /// results.
  virtual std::string table(const RunReport& report, const TextStyle& style) const = 0;

  /// Number of ranks whose results a case compares (Result::ranks); of a resumed run, those of both
  /// halves. The id is complete.
  virtual int num_ranks(const std::string& /*id*/) const { return 1; }

  /// True if the processes of an MPI job can be ranks of its cases.
  virtual bool spans_processes() const { return false; }

  /// Settings of a case that trains on a text or on recorded gradients, to be saved with a failure.
  virtual std::optional<RunConfig> trains_with(const VerifyOptions& /*options*/,
                                               const std::string& /*id*/) const {
    return std::nullopt;
  }
};

}  // namespace zeroproof::verification
