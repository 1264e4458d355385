#pragma once
// Text output of zeroproof train.

#include <string>

#include "verification/tools/train/training_job.hpp"

namespace zeroproof::verification {

/// "byte_gpt_tiny adamw bf16 on threads:4, stage 2, host: 12,269 parameters, 16 micro-batches".
std::string described(const Experiment& experiment, const CaseSpec& spec);

/// Loss curve, time by part, memory, the last step, and the digest of the state, which does not
/// depend on the ranks.
std::string job_text(const Experiment& experiment, const JobResult& result);

/// Of master, the rule's state and parameters after a step; "" if they are unknown. 32 hexadecimal
/// digits.
std::string state_digest(const StepRecord& record);

/// As one line: "step 51  loss 4.2013  norm 0.71  0.12 s"; skipped steps and the loss scale are
/// marked.
std::string step_line(const StepRecord& record);

}  // namespace zeroproof::verification
