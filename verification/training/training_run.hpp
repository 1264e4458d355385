#pragma once

#include <vector>

#include "verification/cases/suite.hpp"

namespace zeroproof::verification {

/// Errors (ErrorCode::config): settings, a text or a recording of a case cannot be used, or TP ranks
/// cannot hold its model.
void check_training(const VerifyOptions& options, const std::vector<CaseSpec>& cases);

/// Runs the cases in this process and, for MPI worlds, in jobs it starts, and appends results, the
/// undistributed runs to which they are compared, and the training texts. Inside such a job, or
/// under the user's own mpirun, runs the cases of that world; the report is complete on rank 0.
/// There must be at least one case, and check_training() must have passed.
void run_training(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                  RunReport& report, const ProgressSink& progress);

}  // namespace zeroproof::verification
