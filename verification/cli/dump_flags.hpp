#pragma once
// --dump and --dump-steps: which numbers of which run go into a file.

#include <string>
#include <vector>

#include "verification/cases/run_plan.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/cli/command_set.hpp"

namespace zeroproof::verification {

/// As typed.
struct DumpFlags {
  std::string file;
  std::vector<std::string> steps;
};

/// Registers both on verify.
void add_dump_flags(const Command& command, DumpFlags& flags);

/// The steps that were asked for, increasing and each once; the last one without any. steps: of the run.
/// Errors (ErrorCode::config): no number, 0, or beyond the run.
std::vector<std::int64_t> dumped_steps(const std::vector<std::string>& texts, std::int64_t steps);

/// The one case, or one of many, whose trajectory is meant: all that are selected must have the same workload, recipe,
/// dtype and sum. flag: who needs it. Errors (ErrorCode::config): there are several, or operations or the like among
/// them; says how to choose.
CaseSpec only_trajectory(const Selection& selection, const std::string& flag);

/// Everything that can be refused before the run. Errors: config; io if the file cannot be written.
void check_dump(const DumpFlags& flags, const VerifyOptions& options, const Selection& selection);

/// Writes the dump; returns a line that says what it holds. Errors: as write_dump.
std::string make_dump(const DumpFlags& flags, const VerifyOptions& options,
                      const Selection& selection);

}  // namespace zeroproof::verification
