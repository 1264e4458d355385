#pragma once

#include "verification/cases/suite.hpp"

namespace zeroproof::verification {

/// Runs that are saved, ended and resumed: "resume/adamw/3:2-to-2:1/fp16/contract-to-contract/after:3".
const Suite& resume_suite();

}  // namespace zeroproof::verification
