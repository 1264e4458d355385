#pragma once
// Sensitivity of the comparison of one case: the planted faults that it must catch, and does.

#include <optional>
#include <string>
#include <vector>

#include "verification/cases/suite.hpp"

namespace zeroproof::verification {

struct Sensitivity {
  std::int64_t faults = 0;          ///< that the case can have (blind_faults.hpp)
  std::vector<std::string> missed;  ///< those that were not caught

  std::int64_t caught() const { return faults - static_cast<std::int64_t>(missed.size()); }
};

/// Runs a case once with every fault that it can have under the settings of `options`. nullopt, not
/// measured: the fault plan has none for it, this program no planted faults, or the candidate is a
/// plug-in or has a fault already.
std::optional<Sensitivity> sensitivity_of(const VerifyOptions& options, const std::string& id,
                                          const ProgressSink& progress);

}  // namespace zeroproof::verification
