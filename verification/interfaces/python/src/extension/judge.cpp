#include "verification/interfaces/python/src/extension/judge.hpp"

#include <chrono>

#include "common/base/error.hpp"
#include "verification/cases/config/acceptance.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cases/run_plan.hpp"
#include "verification/cases/run_report.hpp"
#include "verification/cases/suites/bundle.hpp"
#include "verification/cli/program/capabilities.hpp"
#include "verification/interfaces/plugin/operations.hpp"
#include "verification/interfaces/python/src/extension/candidate.hpp"
#include "verification/interfaces/python/src/extension/judged_op.hpp"
#include "verification/interfaces/python/src/extension/settings.hpp"
#include "verification/ops/op_case.hpp"
#include "verification/ops/op_suite.hpp"
#include "verification/report/github.hpp"
#include "verification/report/report_failures.hpp"
#include "verification/report/verdict_lines.hpp"

namespace zeroproof::python {
namespace {

using verification::Access;
using verification::Fill;
using verification::Op;
using verification::Result;
using verification::RunReport;

/// Inputs of a callable: operands with dtype and access, settings of every variant, fills.
py::Dict describe_operation(const std::string& name, const std::string& dtype) {
  const Op& op = *judged_op(name, dtype_of(dtype)).op;
  py::List operands;
  for (const auto& operand : op.operands) {
    const char* access = operand.access == Access::in    ? "in"
                         : operand.access == Access::out ? "out"
                                                         : "in_out";
    operands.append(
        py::make_tuple(operand.name, std::string(zeroproof::name(operand.dtype)), access));
  }
  py::List variants, earlier;
  for (int v = 0; v < static_cast<int>(op.variants.size()); ++v) {
    variants.append(py::make_tuple(op.variants[v], dict_of(settings_of(op, v))));
    if (!op.earlier) continue;
    verification::CallShape shape;
    shape.variant = v;
    for (const int one : op.earlier(verification::OpCall(op, shape)))
      earlier.append(py::make_tuple(one, dict_of(settings_of(op, one))));
  }
  py::List fills;
  for (const Fill fill : op.fills) fills.append(std::string(verification::name(fill)));
  py::Dict dict;
  dict.set("name", op.name);
  dict.set("operands", operands);
  dict.set("variants", variants);
  dict.set("earlier", earlier);
  dict.set("fills", fills);
  return dict;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  if (at != std::string::npos) text.replace(at, what.size(), by);
  return text;
}

/// Runs the cases of one callable; the interpreter's lock is taken between calls only where needed.
py::Object judge(const std::string& op, const std::string& dtype,
                 const std::vector<std::string>& fills, const std::vector<int>& variants,
                 const std::string& name, const py::Object& calls, const std::string& accept,
                 std::uint64_t seed, std::uint64_t second_seed, const std::string& replay,
                 const std::vector<std::string>& notes) {
  const JudgedOp judged = judged_op(op, dtype_of(dtype));
  const Acceptance accepted = acceptance_of(accept, "accept", AcceptedDialects::yes);
  ZP_CHECK(!accepted.fp32_powers || judged.op->corrects_bias, ErrorCode::config,
           "accept is '" + accept + "' for " + judged.op->name,
           "fp32-powers applies to updates with a bias correction", "use any-order");
  const auto expected = expectation(judged, {variants.begin(), variants.end()}, accepted.dialect);
  const PythonCandidate candidate(name, calls);
  std::vector<verification::OpCaseSpec> cases;
  for (const std::string& word : fills) {
    std::vector<std::string> known;
    for (const Fill fill : judged.op->fills) known.emplace_back(verification::name(fill));
    ZP_CHECK(std::ranges::find(known, word) != known.end(), ErrorCode::config,
             "'" + word + "' is no fill of " + judged.op->name, "every input has a fill",
             suggestion(word, known));
    cases.push_back({judged.op, &candidate, *verification::parse_fill(word)});
  }
  verification::OpRunOptions options;
  options.seed = seed;
  options.second_seed = second_seed;
  options.expectation = expected.get();
  options.any_order = accepted.any_order;
  options.fp32_powers = accepted.fp32_powers;
  options.replay_line = [&](const std::string& id) {
    return replaced(replay, "{fill}", id.substr(id.find("fill:") + 5));
  };
  RunReport report;
  report.capabilities = verification::capabilities();
  report.suites = {&verification::op_suite()};
  report.notes = notes;
  report.held_to = accepted.text();
  const auto begin = std::chrono::steady_clock::now();
  {
    const py::GilRelease others_may_run;
    report.results = run_op_cases(cases, options);
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  candidate.raise_pending();
  return py::Class<RunReport>::wrap(std::make_unique<RunReport>(std::move(report)));
}

py::List results_of(const RunReport& report) {
  py::List results;
  for (const Result& result : report.results) {
    py::Dict dict;
    dict.set("id", result.id);
    dict.set("status", std::string(verification::name(result.status)));
    dict.set("reason", result.reason);
    dict.set("held_to", result.held_to);
    dict.set("compared", result.compared);
    dict.set("differing", result.differing);
    dict.set("replay", result.replay);
    dict.set("failure", failure_line(result));
    dict.set("details", verification::details_of(result));
    dict.set("hint", result.divergence ? result.divergence->hint : "");
    dict.set("order", result.divergence ? result.divergence->order : "");
    results.append(dict);
  }
  return results;
}

/// flags: arguments of the rerun of a bundle: flag, value, flag, value.
std::vector<std::string> save(const RunReport& report, const std::string& folder,
                              const std::vector<std::string>& flags) {
  verification::VerifyOptions options;
  options.replay_flags = flags;
  return verification::save_bundles(report, options, folder);
}

std::string text(const RunReport& report, bool colour) {
  return verification::to_text(report, {colour, false});
}

std::string github(const RunReport& report, bool strict, const std::string& file,
                   std::int64_t line) {
  return verification::to_github(report, strict, {file, line});
}

std::string append_summary_of(const RunReport& report, bool strict) {
  return verification::append_job_summary("zproof: " + verification::status_counts(report.results),
                                          verification::summary_rows(report, strict));
}

std::string command_of(const std::string& level, const std::string& file, std::int64_t line,
                       const std::string& title, const std::string& message) {
  return verification::github_command(level, {file, line}, title, message);
}

std::string append_summary(const std::string& title,
                           const std::vector<std::vector<std::string>>& rows) {
  std::vector<verification::SummaryRow> all;
  for (const auto& row : rows) all.push_back({row.at(0), row.at(1), row.at(2), row.at(3)});
  return verification::append_job_summary(title, all);
}

std::string nearest_of(const std::string& word, const std::vector<std::string>& choices) {
  return nearest(word, choices);
}

}  // namespace

void bind_judge(py::Module& module) {
  py::Class<RunReport>("Report")
      .def<&text>("text", {"colour"})
      .def<&verification::to_json>("json")
      .def<&verification::to_junit>("junit", {"strict"})
      .def<&verification::to_html>("html", {"strict"})
      .def<&github>("github", {"strict", "file", "line"})
      .def<&append_summary_of>("append_job_summary", {"strict"})
      .def<&verification::exit_code>("exit_code", {"strict"})
      .def<&results_of>("results")
      .def<&save>("save", {"folder", "flags"})
      .add_to(module);
  module.def<&command_of>("github_command", {"level", "file", "line", "title", "message"});
  module.def<&append_summary>("append_job_summary", {"title", "rows"});
  module.def<&verification::plugin_operations>("operation_names");
  module.def<&describe_operation>("describe_operation", {"name", "dtype"});
  module.def<&nearest_of>("nearest", {"word", "choices"});
  module.def<&judge>("judge", {"op", "dtype", "fills", "variants", "name", "calls", "accept",
                               "seed", "second_seed", "replay", "notes"});
}

}  // namespace zeroproof::python
