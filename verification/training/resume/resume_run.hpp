#pragma once

#include "verification/cases/result.hpp"
#include "verification/cases/run_plan.hpp"
#include "verification/training/gradients/grad_cache.hpp"
#include "verification/training/resume/resume_case.hpp"

namespace zeroproof::verification {

/// Runs the first half on its ranks, saves a checkpoint in a temporary folder and destroys
/// everything; then creates the ranks of the second half, and compares the loaded state and every
/// step with the uninterrupted undistributed optimizer. pass, fail with the first difference,
/// mistrusted if the run proves little; error or hung if a rank could not continue before a
/// difference. fault: identifier of a planted fault, or "".
Result judge_resume(const ResumeCaseSpec& spec, const Experiment& experiment, GradCache& leaves,
                    const std::string& fault);

}  // namespace zeroproof::verification
