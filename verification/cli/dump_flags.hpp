#pragma once
// --dump, --dump-steps and --dump-gradients: which numbers of which run go into a file.

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
  bool gradients = false;
};

/// Registers them on verify.
void add_dump_flags(const Command& command, DumpFlags& flags);

/// The requested steps, increasing and each once; the last step if none was requested. steps: of
/// the run. Errors (ErrorCode::config): no number, 0, or beyond the run.
std::vector<std::int64_t> dumped_steps(const std::vector<std::string>& texts, std::int64_t steps);

/// One case of the requested trajectory: all selected cases must have the same workload, recipe,
/// dtype and sum. flag: the flag that needs it. Errors (ErrorCode::config): there are several
/// trajectories, or cases without one such as operations; the hint names flags that select one.
CaseSpec only_trajectory(const Selection& selection, const std::string& flag);

/// Everything that can be refused before the run. Errors: config; io if the file cannot be written.
void check_dump(const DumpFlags& flags, const VerifyOptions& options, const Selection& selection);

/// Writes the dump; returns a line that describes it. Errors: as write_dump.
std::string make_dump(const DumpFlags& flags, const VerifyOptions& options,
                      const Selection& selection);

}  // namespace zeroproof::verification
