#pragma once
// The axes over which coverage is counted: the settings of a run and the parts of a case id, each with its values.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "verification/cases/case.hpp"
#include "verification/cases/config/config.hpp"

namespace zeroproof::verification {

/// A training run: one case, with the settings of its run (RunConfig::dtypes holds the case's dtype alone).
struct CoveredRun {
  RunConfig config;
  CaseSpec spec;
};

struct AxisValue {
  std::string name;
  std::function<void(CoveredRun&)> set;
  std::function<bool(const CoveredRun&)> is;
};

struct Axis {
  std::string name;
  std::vector<std::string> keys;   ///< of the configuration file, "section.key"
  std::vector<std::string> flags;  ///< of verify
  std::vector<AxisValue> values;
  /// False if the run does not use the setting: such a run visits no value of the axis.
  std::function<bool(const CoveredRun&)> applies;
  bool of_id = false;  ///< a part of the case id other than the settings behind its recipe

  /// Index of the value that a run has, or -1.
  int value_of(const CoveredRun& run) const;
};

/// Every axis, in an order in which a run can be given values one after another.
const std::vector<Axis>& axes();

/// Axes whose settings meet in one function: rows of triples contain their values three at a time.
struct AxisGroup {
  std::string name;
  std::vector<std::size_t> axes;  ///< indices of axes(); no two groups share three
};

const std::vector<AxisGroup>& axis_groups();

/// The axes that are parts of the case id.
std::vector<Axis> case_axes();

/// Flags of verify that choose no value of an axis, each with the reason.
const std::vector<std::pair<std::string, std::string>>& flags_without_values();

}  // namespace zeroproof::verification
