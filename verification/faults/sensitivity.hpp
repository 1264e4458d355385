#pragma once
// Measures the sensitivity of the comparison of one case with planted faults.

#include <optional>
#include <string>

#include "verification/cases/sensitivity.hpp"
#include "verification/cases/suite.hpp"

namespace zeroproof::verification {

/// Runs a case once with every fault that it can have under the settings of `options`. nullopt, not
/// measured: the fault plan has none for it, this program no planted faults, or the candidate is a
/// plug-in or has a fault already.
std::optional<Sensitivity> sensitivity_of(const VerifyOptions& options, const std::string& id,
                                          const ProgressSink& progress);

}  // namespace zeroproof::verification
