#include <fmt/format.h>

#include <algorithm>

#include "verification/bench/device/report.hpp"

namespace zeroproof::verification::bench {
namespace {

std::string row_line(const std::vector<Row>& rows, const Row& row) {
  std::string text =
      fmt::format("{:<34} {:>10.4f} {:>10.4f}", row.name, 1e3 * row.best(), 1e3 * row.median());
  if (row.num_bytes > 0) {
    text += fmt::format(" {:>5.0f} {:>8.1f}", row.num_bytes,
                        row.num_bytes * static_cast<double>(row.numel) / row.best() / 1e9);
  }
  if (!row.limits.empty()) {
    const Ratio ratio = ratio_to_limit(rows, row);
    text += fmt::format(" {:>8.1f} {:>6.3f} {:>9.3f}", ratio.limit_gbs, ratio.best, ratio.per_round);
  }
  return text + '\n';
}

std::string figure_line(const Figure& figure, bool judged) {
  std::string text = fmt::format("{:<46} {:>9.3f} {:<7}", figure.name, figure.value, figure.unit);
  if (figure.goal > 0 && judged)
    text += fmt::format("  goal {} {:.2f} {}", figure.at_least ? ">=" : "<=", figure.goal,
                        figure.met() ? "met" : "missed");
  return text + '\n';
}

std::string group_text(const Group& group, bool judged) {
  if (!group.missing.empty()) return fmt::format("{}\nnot measured: {}\n\n", group.title, group.missing);
  std::string text = group.title + "\n\n";
  text += fmt::format("{:<34} {:>21} {:>5} {:>8} {:>8} {:>16}\n", "", "ms", "B per", "", "limit",
                      "ratio to limit");
  text += fmt::format("{:<34} {:>10} {:>10} {:>5} {:>8} {:>8} {:>6} {:>9}\n", "row", "best", "median", "elem",
                      "GB/s", "GB/s", "best", "per round");
  for (const Row& row : group.rows) {
    if (row.shape.empty() || best_limit(group.rows, row.shape) == &row) text += row_line(group.rows, row);
  }
  text += '\n';
  for (const Figure& figure : group.figures) text += figure_line(figure, judged);
  return text + '\n';
}

}  // namespace

bool DeviceReport::ok() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.ok; });
}

std::string to_text(const DeviceReport& report) {
  std::string text =
      fmt::format("{}; {}, {} cores, load {:.1f}; {} rounds\n\n", report.device, report.machine.cpu,
                  report.machine.cores, report.machine.load, report.options.rounds);
  if (report.simulated()) text += "a simulated device: bits mean something, times do not\n\n";
  for (const Group& group : report.groups) text += group_text(group, !report.simulated());
  for (const Check& check : report.checks) {
    text += fmt::format("{:<5} {}{}\n", check.ok ? "same" : "WRONG", check.name,
                        check.where.empty() ? "" : " (" + check.where + ")");
  }
  return text;
}

}  // namespace zeroproof::verification::bench
