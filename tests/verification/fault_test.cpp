// The harness is shown wrong optimizers: every one must be caught, and blamed on the right place.

#include <doctest.h>

#include <algorithm>
#include <set>

#include "verification/fault_plan.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

}  // namespace

TEST_CASE(
    "every planted fault is caught at its step, phase, rank, buffer and element range; no false alarm") {
  REQUIRE(cuda::faults_built());
  const FaultReport report = run_faults({}, [](double, const std::string&) {});
  std::set<std::string_view> classes;
  for (const FaultFinding& finding : report.faults) {
    CAPTURE(std::string(finding.fault->id));
    CAPTURE(finding.reason);
    CHECK(finding.caught);
    CHECK(finding.attributed);
    CHECK(finding.exact);
    classes.insert(finding.fault->fault_class);
  }
  for (const ControlFinding& control : report.controls) {
    CAPTURE(std::string(control.case_id));
    CAPTURE(control.reason);
    CHECK(control.status == Status::pass);
    CHECK_FALSE(control.mistrusted());
  }
  CHECK(report.survivors() == 0);
  CHECK(report.false_alarms() == 0);
  CHECK(exit_code(report) == 0);
  CHECK(classes.size() >= 22);
  MESSAGE(to_text(report, false));
}

TEST_CASE("the plan covers the catalogue: one row each, and at least 70 from public bugs") {
  std::set<std::string_view> rows;
  for (const FaultCase& row : fault_plan()) CHECK_MESSAGE(rows.insert(row.fault).second, row.fault);
  int from_public_bugs = 0;
  for (const cuda::Fault& fault : cuda::fault_catalogue()) {
    CHECK_MESSAGE(rows.erase(fault.id) == 1, fault.id);
    if (!fault.source.empty()) ++from_public_bugs;
  }
  CHECK(rows.empty());
  CHECK(from_public_bugs >= 70);
  CHECK(cuda::lbfgs_faults().size() == lbfgs_fault_plan().size());
  for (const cuda::Fault& fault : cuda::lbfgs_faults()) CHECK_FALSE(fault.phase.has_value());
}

TEST_CASE("faults do not survive a free run either") {
  for (const FaultCase& row : fault_plan()) {
    CAPTURE(std::string(row.fault));
    CHECK(run_row(row, row.fault, Mode::free).status == (row.refused ? Status::error : Status::fail));
  }
}

TEST_CASE("a survivor, a wrong place and a false alarm are told apart") {
  FaultReport report;
  const cuda::Fault& fault = cuda::fault_catalogue().front();
  report.faults.push_back({&fault, &plan_of(fault.id), true, true, true, std::nullopt, ""});
  report.controls.push_back({"some/case", nullptr, Status::pass, "", 1, 1});
  CHECK(exit_code(report) == 0);
  report.faults[0].exact = false;  // still the right phase and buffer
  CHECK(exit_code(report) == 1);
  CHECK(report.survivors() == 0);
  report.faults[0].caught = false;
  CHECK(report.survivors() == 1);
  report.faults[0] = {&fault, &plan_of(fault.id), true, true, true, std::nullopt, ""};
  report.controls[0].status = Status::fail;
  CHECK(report.false_alarms() == 1);
  CHECK(exit_code(report) == 1);
  report.controls[0] = {"some/case", nullptr, Status::pass, "", 2, 0};
  CHECK(report.controls[0].mistrusted());
  CHECK(exit_code(report) == 1);
  CHECK(to_text(report, false).find("mistrusted") != std::string::npos);
}
