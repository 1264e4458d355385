#include "verification/controls/control.hpp"

#include <chrono>

#include "common/base/error.hpp"
#include "common/step/config.hpp"

namespace zeroproof::verification {

const std::vector<Control>& all_controls() {
  static const std::vector<Control> controls = [] {
    std::vector<Control> all = op_controls();
    for (Control& control : step_controls()) all.push_back(std::move(control));
    return all;
  }();
  return controls;
}

bool names_controls(const std::string& pattern) {
  return pattern == "controls" || pattern.rfind("controls/", 0) == 0;
}

std::vector<const Control*> matching_controls(const std::string& pattern) {
  const bool wild = pattern.find_first_of("*?") != std::string::npos;
  const bool all = pattern == "controls" || pattern == "controls/";
  std::vector<const Control*> found;
  std::vector<std::string> ids;
  for (const Control& control : all_controls()) {
    ids.push_back(control.id());
    if (all || (wild ? matches(pattern, control.id()) : control.id() == pattern)) found.push_back(&control);
  }
  ZP_CHECK(wild || !found.empty(), ErrorCode::config, "control '" + pattern + "' does not exist",
           "there is nothing to run", "did you mean " + nearest(pattern, ids) + "?");
  return found;
}

CheckResult run_control(const Control& control, std::uint64_t seed, const std::string& replay) {
  const auto begin = std::chrono::steady_clock::now();
  CheckResult result;
  result.id = control.id();
  result.suite = "controls";
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
      result.reason = "a false alarm: " + control.summary + ", but the harness says: " + outcome.first;
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
