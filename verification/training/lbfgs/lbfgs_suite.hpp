#pragma once

#include "verification/cases/suite.hpp"

namespace zeroproof::verification {

/// Runs of L-BFGS: "lbfgs/byte_gpt_tiny/armijo/threads:3/contract".
const Suite& lbfgs_suite();

}  // namespace zeroproof::verification
