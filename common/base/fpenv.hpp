#pragma once
// The floating-point environment the contract needs: round to nearest even, no flush to zero, no traps (R3).

#include <string>

namespace zeroproof {

/// True if this thread rounds to nearest, keeps subnormals (FTZ and DAZ off) and masks every exception.
bool fp_environment_ok();

/// What is wrong on this thread, "" if nothing: "flush-to-zero is on, denormals-are-zero is on".
std::string fp_environment_problem();

/// Throws Error(fp_environment) naming the thread if this thread's environment is not the contract's.
/// `who` says where the check ran, "rank 2" or "host worker 1".
void require_fp_environment(const std::string& who);

}  // namespace zeroproof
