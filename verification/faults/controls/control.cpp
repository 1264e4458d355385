#include "verification/faults/controls/control.hpp"

#include <chrono>
#include <exception>

namespace zeroproof::verification {

const std::vector<Control>& all_controls() {
  static const std::vector<Control> controls = [] {
    std::vector<Control> all = op_controls();
    for (Control& control : step_controls()) all.push_back(std::move(control));
    return all;
  }();
  return controls;
}

Result run_control(const Control& control, std::uint64_t seed, const std::string& replay) {
  const auto begin = std::chrono::steady_clock::now();
  Result result;
  result.id = control.id();
  result.suite = result.group = "controls";
  result.side = "harness";
  result.exactness = "-";
  result.replay = replay;
  try {
    const ControlOutcome outcome = control.run(seed);
    result.legal_differences = outcome.legal_differences;
    result.compared = outcome.compared;
    result.differing = outcome.flagged;
    result.status = outcome.flagged > 0 ? Status::fail : Status::pass;
    if (outcome.flagged > 0) {
      result.reason =
          "a false alarm: " + control.summary + ", but the harness reports: " + outcome.first;
    } else if (outcome.legal_differences == 0 || outcome.compared == 0) {
      result.status = Status::mistrusted;
      result.reason = "the legal difference did not occur";
    }
  } catch (const std::exception& error) {
    result.status = Status::error;
    result.reason = error.what();
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace zeroproof::verification
