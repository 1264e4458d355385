// Negative controls: legal differences, which occur in the run and must not be reported.

#include <doctest.h>

#include <set>

#include "common/base/error.hpp"
#include "verification/faults/controls/control.hpp"
#include "verification/faults/controls/control_suite.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

Result outcome(const ControlOutcome& result) {
  return run_control({"made-up", "made up", [&](std::uint64_t) { return result; }}, 1, "");
}

}  // namespace

TEST_CASE("nightly: controls: every legal difference occurs and none is reported") {
  const std::set<std::string> expected = {
      "nan-payloads",     "nan-payloads-in-digests",  "swapped-sums",
      "swapped-operands", "norm-pieces-in-any-order", "norm-carries-left",
      "norm-with-fma",    "scratch-after-skip",       "padding-content",
      "bucket-sizes"};
  std::set<std::string> seen;
  for (const Control& control : all_controls()) {
    for (const std::uint64_t seed : {1U, 2U}) {
      const Result result = run_control(control, seed, "");
      CAPTURE(result.id);
      CAPTURE(result.reason);
      CHECK(result.status == Status::pass);
      CHECK(result.legal_differences > 0);
      CHECK(result.compared > 0);
      CHECK(result.differing == 0);
    }
    seen.insert(control.name);
  }
  CHECK(seen == expected);
}

TEST_CASE("controls: a false alarm fails, and a control without a difference is mistrusted") {
  CHECK(outcome({5, 100, 0, ""}).status == Status::pass);
  CHECK(outcome({5, 100, 1, "adamw differs"}).status == Status::fail);
  CHECK(outcome({5, 100, 1, "adamw differs"}).reason.find("adamw differs") != std::string::npos);
  CHECK(outcome({0, 100, 0, ""}).status == Status::mistrusted);
  CHECK(outcome({5, 0, 0, ""}).status == Status::mistrusted);
  const Control throws{"throws", "throws",
                       [](std::uint64_t) -> ControlOutcome { throw std::runtime_error("x"); }};
  CHECK(run_control(throws, 1, "").status == Status::error);
}

TEST_CASE("controls: selected by name") {
  const auto ids = [](const std::string& pattern) { return control_suite().ids({}, pattern); };
  CHECK(ids("controls").size() == all_controls().size());
  CHECK(ids("controls/*").size() == all_controls().size());
  CHECK(ids("controls/nan-payloads") == std::vector<std::string>{"controls/nan-payloads"});
  CHECK(ids("controls/norm-*").size() == 3);
  CHECK(ids("controls/zz*").empty());
  CHECK(ids("").empty());
  CHECK_THROWS_AS(ids("controls/nan-payload"), Error);
}
