#pragma once

#include "verification/cases/run_plan.hpp"
#include "verification/training/lbfgs/lbfgs_case.hpp"

namespace zeroproof::tests {

/// The experiment of verify for byte_gpt_tiny.
inline verification::LbfgsRunOptions tiny_options() {
  verification::LbfgsRunOptions options;
  options.config = verification::config_of(verification::VerifyOptions{}, "byte_gpt_tiny");
  return options;
}

}  // namespace zeroproof::tests
