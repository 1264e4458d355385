#pragma once
// Shared by verify and replay: run a selection, write its reports.

#include "verification/cases/suites/selection.hpp"
#include "verification/cli/case_flags.hpp"
#include "verification/cli/dump_flags.hpp"

namespace zeroproof::verification {

struct VerifyRequest {
  CaseFlags cases;
  std::vector<std::string> reports;  ///< as typed after --report
  std::string save_failing;          ///< folder for bundles of failing cases, "" for none
  std::string evidence;              ///< file for evidence, "" for none
  DumpFlags dump;
  std::string expect;       ///< file with another program's numbers, "" for none
  std::string phase_names;  ///< names of the tensors in that file
  bool strict = false;
  bool rows = false;
  bool bytes = false;
};

/// Registers --report, --strict, --rows, --bytes and --save-failing.
void add_report_flags(const Command& command, VerifyRequest& request);

/// Prints on standard error which pattern selects nothing, with the nearest word or the complete id
/// that it begins; returns the exit code. There must be such a pattern.
int nothing_matches(const VerifyOptions& options, const Selection& selection);

/// Runs and reports; returns the exit code. `report`, if given, receives the results.
int run_verify(const VerifyRequest& request, RunReport* report = nullptr);

}  // namespace zeroproof::verification
