#pragma once
// The floating-point environment the contract requires: round to nearest even, no flush to zero, no traps (R3).

#include <string>

namespace zeroproof {

/// True if this thread rounds to nearest, keeps subnormals (FTZ and DAZ off) and masks every exception.
bool fp_environment_ok();

/// The problem on this thread, "" if there is none: "flush-to-zero is on, denormals-are-zero is
/// on".
std::string fp_environment_problem();

/// Throws Error(fp_environment) naming the thread if this thread's environment is not the contract's.
/// `who` names the place of the check, "rank 2" or "host worker 1".
void require_fp_environment(const std::string& who);

}  // namespace zeroproof
