#include "verification/report_checks.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "verification/report_style.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* controls_suite = "controls";
constexpr std::string_view lbfgs_suite = "lbfgs/";

bool is_lbfgs(const CheckResult& check) { return check.suite.rfind(lbfgs_suite, 0) == 0; }

bool is_operation(const CheckResult& check) { return check.suite != controls_suite && !is_lbfgs(check); }

struct Row {
  std::string suite, exactness;
  std::int64_t cases = 0, compared = 0, differing = 0, bad = 0, skipped = 0;
  double worst_ratio = 0;
};

std::vector<Row> rows_of(const std::vector<CheckResult>& checks, bool (*wanted)(const CheckResult&)) {
  std::vector<Row> rows;
  for (const CheckResult& check : checks) {
    if (!wanted(check)) continue;
    const auto same = [&](const Row& row) { return row.suite == check.suite; };
    auto row = std::find_if(rows.begin(), rows.end(), same);
    if (row == rows.end()) row = rows.insert(row, Row{check.suite, check.exactness});
    ++row->cases;
    row->compared += check.compared;
    row->differing += check.differing;
    row->worst_ratio = std::max(row->worst_ratio, check.worst_ratio);
    if (check.status == Status::skipped) {
      ++row->skipped;
    } else if (check.status != Status::pass && check.status != Status::mistrusted) {
      ++row->bad;
    }
  }
  return rows;
}

void add_operations(std::string& out, const std::vector<CheckResult>& checks, const Paint& paint) {
  const std::vector<Row> rows = rows_of(checks, is_operation);
  if (rows.empty()) return;
  std::string sides;
  for (const CheckResult& check : checks) {
    if (!is_operation(check) || check.status == Status::skipped) continue;
    if (sides.find(check.side + ",") == std::string::npos) sides += " " + check.side + ",";
  }
  if (!sides.empty()) sides.back() = ' ';
  out += "\noperations:" + sides + "against the reference\n";
  out += "operation                  class    cases        compared    differing\n";
  for (const Row& row : rows) {
    std::string verdict = row.bad > 0 || row.differing > 0 ? paint("31", "DIFFER")
                          : row.skipped == row.cases       ? paint("33", "skipped")
                                                           : paint("32", "equal");
    if (row.exactness == "bounded" && row.bad == 0) {
      verdict = paint("32", fmt::format("error {:.2g} of its bound", row.worst_ratio));
    }
    out += fmt::format("{:<26} {:<8} {:>5} {:>15} {:>12}  {}\n", row.suite, row.exactness,
                       row.cases - row.skipped, grouped(row.compared), grouped(row.differing), verdict);
  }
}

void add_controls(std::string& out, const std::vector<CheckResult>& checks, const Paint& paint) {
  std::int64_t run = 0;
  std::int64_t alarms = 0;
  std::string table;
  for (const CheckResult& check : checks) {
    if (check.suite != controls_suite) continue;
    ++run;
    const bool alarm = check.status == Status::fail || check.status == Status::error;
    alarms += alarm ? 1 : 0;
    table += fmt::format("{:<34} {:>18} {:>12}  {}\n", check.id.substr(std::string("controls/").size()),
                         grouped(check.legal_differences), grouped(check.differing),
                         paint.status(check.status, alarm ? "FALSE ALARM" : std::string(name(check.status))));
  }
  if (run == 0) return;
  out += "\ncontrol                             legal differences      flagged\n" + table;
  out += fmt::format("controls: {} legal differences shown to the harness, {} false alarms\n", run, alarms);
}

void add_lbfgs(std::string& out, const std::vector<CheckResult>& checks, const Paint& paint) {
  const std::vector<Row> rows = rows_of(checks, is_lbfgs);
  if (rows.empty()) return;
  out += "\nL-BFGS: production and the reference over ranks against the reference on one rank\n";
  out += "workload and recipe              cases        compared    differing\n";
  for (const Row& row : rows) {
    const bool good = row.bad == 0 && row.differing == 0;
    out += fmt::format("{:<32} {:>5} {:>15} {:>12}  {}\n", row.suite.substr(lbfgs_suite.size()),
                       row.cases - row.skipped, grouped(row.compared), grouped(row.differing),
                       paint(good ? "32" : "31", good ? "equal" : "DIFFER"));
  }
}

/// What is skipped or mistrusted comes in crowds with one reason: one line for each.
void add_crowds(std::string& out, const std::vector<CheckResult>& checks, const Paint& paint) {
  std::map<std::pair<Status, std::string>, std::vector<const CheckResult*>> crowds;
  for (const CheckResult& check : checks) {
    if (check.status == Status::skipped || check.status == Status::mistrusted) {
      crowds[{check.status, check.reason}].push_back(&check);
    }
  }
  for (const auto& [key, members] : crowds) {
    out += "\n" + paint.status(key.first, std::string(name(key.first))) +
           fmt::format(
               " {}, the first {}\n  reason    {}\n",
               members.size() == 1 ? "1 case" : grouped(static_cast<std::int64_t>(members.size())) + " cases",
               members.front()->id, key.second);
  }
}

void add_failure(std::string& out, const CheckResult& check, const Paint& paint) {
  std::string title(name(check.status));
  std::transform(title.begin(), title.end(), title.begin(),
                 [](char c) { return static_cast<char>(std::toupper(c)); });
  out += "\n" + paint.status(check.status, title) + " " + check.id + "\n  reason    " + check.reason + "\n";
  if (check.first) {
    const CheckDifference& first = *check.first;
    out += "  first at  " + first.output + (first.output.empty() ? "" : "  ") + first.shape + "\n";
    if (!first.got.empty()) out += "  values    got " + first.got + "  want " + first.expected + "\n";
    for (const auto& [name, value] : first.inputs) out += "  input     " + name + " " + value + "\n";
  }
  if (check.divergence) out += place_lines(*check.divergence);
  if (check.differing > 0) {
    out += fmt::format("  {}    {} of {} results differ\n", check.divergence ? "in all" : "extent",
                       grouped(check.differing), grouped(check.compared));
    if (check.ulps.sign_or_nan > 0 || check.ulps.largest > 0)
      out += "  ulps      " + to_string(check.ulps) + "\n";
  }
  out += "  replay    " + check.replay + "\n";
}

}  // namespace

std::string place_lines(const Divergence& d) {
  const std::string phase = d.phase ? "  phase " + std::string(name(*d.phase)) : "";
  std::string out =
      fmt::format("  first at  step {}{}  rank {}  buffer {}: {}\n", d.step, phase, d.rank, d.buffer, d.what);
  if (!d.parameter.empty()) {
    out += fmt::format("  element   {}{}  shard index {}  global index {} (last differing: {})\n",
                       d.parameter, d.coordinates, d.shard_index, d.global_index, d.last_global_index);
  }
  if (!d.candidate_value.empty()) {
    out += fmt::format("  values    got {}  want {}\n", d.candidate_value,
                       d.reference_value.empty() ? "NaN" : d.reference_value);
  }
  if (d.compared > 0) {
    out += fmt::format("  extent    {} of {} elements of this buffer on this rank differ\n",
                       grouped(d.differing), grouped(d.compared));
  }
  return out;
}

void add_checks(std::string& out, const std::vector<CheckResult>& checks, bool colour) {
  const Paint paint{colour};
  add_operations(out, checks, paint);
  add_lbfgs(out, checks, paint);
  add_controls(out, checks, paint);
  int shown = 0;
  for (const CheckResult& check : checks) {
    if (check.status == Status::pass || check.status == Status::skipped || check.status == Status::mistrusted)
      continue;
    if (++shown <= 8) add_failure(out, check, paint);
  }
  if (shown > 8)
    out += fmt::format("\n... and {} more that did not pass; the JSON report has them all\n", shown - 8);
  add_crowds(out, checks, paint);
}

}  // namespace zeroproof::verification
