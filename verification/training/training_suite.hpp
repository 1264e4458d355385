#pragma once

#include "verification/cases/suite.hpp"

namespace zeroproof::verification {

/// Whole training runs: "byte_gpt/adamw/host/stage2/threads:4/bf16/lockstep/bucket:262144/omp:0".
/// It is the first suite, so it gets every pattern that belongs to no other one; without a pattern
/// it has the cases of the main job.
const Suite& training_suite();

}  // namespace zeroproof::verification
