#pragma once

#include "verification/cases/result.hpp"
#include "verification/cases/run_plan.hpp"
#include "verification/training/gradients/grad_cache.hpp"
#include "verification/training/resume/resume_case.hpp"

namespace zeroproof::verification {

/// The first half of the run on its ranks, a checkpoint in a temporary folder, everything destroyed; then, made anew on
/// the ranks of the second half, what is loaded and every step, against the undistributed optimizer, which never
/// stopped. pass, fail with the first place, mistrusted if the run proves little; error or hung if a rank could not go
/// on before anything differed. fault: identifier of a planted one, or "".
Result judge_resume(const ResumeCaseSpec& spec, const Experiment& experiment, GradCache& leaves,
                    const std::string& fault);

}  // namespace zeroproof::verification
