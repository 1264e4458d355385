#pragma once
// Negative controls: differences the contract allows. A harness that reports one of them as an
// error is too strict.

#include <functional>
#include <string>
#include <vector>

#include "verification/cases/result.hpp"

namespace zeroproof::verification {

/// Result of a control: how often the legal difference occurred, and how often the harness reported
/// it.
struct ControlOutcome {
  std::int64_t legal_differences = 0;  ///< bytes, elements or values that are not the same
  std::int64_t compared = 0;           ///< by the harness
  std::int64_t flagged = 0;
  std::string first;  ///< the first false alarm
};

struct Control {
  std::string name;     ///< "nan-payloads"
  std::string summary;  ///< the rule that allows it, in one line
  std::function<ControlOutcome(std::uint64_t seed)> run;

  std::string id() const { return "controls/" + name; }
};

/// All controls. No fault is planted and no tolerance applied: the comparisons are those of every
/// other case.
const std::vector<Control>& all_controls();

/// pass: the difference occurred and was not reported. mistrusted: it never occurred. fail: a false
/// alarm.
Result run_control(const Control& control, std::uint64_t seed, const std::string& replay);

/// The two groups that all_controls() consists of.
std::vector<Control> op_controls();
std::vector<Control> step_controls();

}  // namespace zeroproof::verification
