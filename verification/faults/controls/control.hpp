#pragma once
// Negative controls: differences the contract allows. A harness that flags one of them cries wolf.

#include <functional>
#include <string>
#include <vector>

#include "verification/cases/result.hpp"

namespace zeroproof::verification {

/// What a control saw: how often the legal difference really occurred, and how often the harness called it one.
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

/// All of them. Nothing is planted and nothing is tolerated: the comparisons are those of every other case.
const std::vector<Control>& all_controls();

/// pass: the difference occurred and nothing was flagged. mistrusted: it never occurred. fail: a false alarm.
Result run_control(const Control& control, std::uint64_t seed, const std::string& replay);

/// The two groups all_controls() is made of.
std::vector<Control> op_controls();
std::vector<Control> step_controls();

}  // namespace zeroproof::verification
