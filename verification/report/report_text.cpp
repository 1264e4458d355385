#include "common/base/printable.hpp"
#include "verification/cases/suite.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_failures.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

void add_self_test(std::string& out, const SelfTest& test, const Paint& paint) {
  if (!test.not_run.empty()) {
    out += "self-test: not run (" + test.not_run + ")\n";
  } else if (test.differing.empty()) {
    out += fmt::format("self-test: {} trajectories and tables as committed\n", test.rows);
  } else {
    std::string names;
    for (const std::string& row : test.differing) names += (names.empty() ? "" : ", ") + row;
    out += paint("31", fmt::format(
                           "self-test: {} of {} trajectories and tables are not as committed "
                           "(code shared by production and reference is wrong, or has changed): {}",
                           test.differing.size(), test.rows, names)) +
           "\n";
  }
}

}  // namespace

std::string to_text(const RunReport& report, const TextStyle& style) {
  const Paint paint{style.colour};
  std::string out =
      fmt::format("zeroproof {}  numeric contract {}\n", ZP_VERSION, contract_version);
  if (report.input.bytes > 0) {
    const bool text = report.input.kind != "gradients";
    out += fmt::format("{}: {} ({}{} bytes)\n", text ? "text" : "gradients",
                       printable(report.input.path), text ? report.input.kind + ", " : "",
                       grouped(report.input.bytes));
  }
  if (report.self_test) add_self_test(out, *report.self_test, paint);
  for (const std::string& note : report.notes) out += "note: " + printable(note) + "\n";
  for (const Suite* suite : report.suites) out += suite->table(report, style);
  out += failures_text(report.results, style.colour);
  std::string summary;
  for (int i = 0; i < num_statuses; ++i) {
    const auto status = static_cast<Status>(i);
    const std::int64_t count = report.count(status);
    if (count == 0 && status != Status::pass && status != Status::fail) continue;
    const std::string text = grouped(count) + " " + std::string(name(status));
    summary += (summary.empty() ? "" : ", ") + (count > 0 ? paint.status(status, text) : text);
  }
  out += fmt::format("\n{}  ({:.1f} s)\n", summary, report.seconds);
  if (exit_code(report, false) == 4)
    out += paint("33", "nothing was proved: no case passed") + "\n";
  return out;
}

}  // namespace zeroproof::verification
