#pragma once

#include <functional>

#include "verification/run_plan.hpp"
#include "verification/run_report.hpp"

namespace zeroproof::verification {

/// Called as the run goes on; fraction in [0, 1].
using ProgressSink = std::function<void(double fraction, const std::string& what)>;

/// Runs the cases in this process and, for MPI worlds, in jobs it starts. Inside such a job, or under the
/// user's own mpirun, runs the cases of that world; the report is complete on rank 0. There must be at least
/// one case. Errors: ErrorCode::config for settings or a text that cannot be used, before anything runs.
RunReport run_cases(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                    const ProgressSink& progress);

}  // namespace zeroproof::verification
