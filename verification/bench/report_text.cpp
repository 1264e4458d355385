#include <fmt/format.h>

#include <algorithm>

#include "verification/bench/report.hpp"

namespace zeroproof::verification::bench {
namespace {

double ns_per_element(double seconds, const Row& row) {
  return seconds * 1e9 / static_cast<double>(row.numel);
}
double gbs(const Row& row) { return row.num_bytes * static_cast<double>(row.numel) / row.best() / 1e9; }

std::string row_line(const std::vector<Row>& rows, const Row& row) {
  std::string text =
      fmt::format("{:<27} {:>4.0f} {:>8.4f} {:>7.4f} {:>6.1f}", row.name, row.num_bytes,
                  ns_per_element(row.best(), row), ns_per_element(row.median(), row), gbs(row));
  if (!row.limits.empty()) {
    const Ratio ratio = ratio_to_limit(rows, row);
    text += fmt::format(" {:>7.1f}  {:>5.3f} {:>9.3f}", ratio.limit_gbs, ratio.best, ratio.per_round);
    if (row.goal > 0)
      text += fmt::format("  >= {:.2f} {}", row.goal, ratio.per_round >= row.goal ? "met" : "missed");
  }
  return text + '\n';
}

std::string table(const std::vector<Row>& rows) {
  std::string text = fmt::format("{:<27} {:>4} {:>16} {:>6} {:>7}  {:>15}\n", "", "B/", "ns per element", "",
                                 "limit", "ratio to limit");
  text += fmt::format("{:<27} {:>4} {:>8} {:>7} {:>6} {:>7}  {:>5} {:>9}  {}\n", "row", "el.", "best",
                      "median", "GB/s", "GB/s", "best", "per round", "goal");
  for (const Row& row : rows) {
    if (row.shape.empty() || best_limit(rows, row.shape) == &row) text += row_line(rows, row);
  }
  return text;
}

std::string detail_line(const char* what, double factor) {
  return fmt::format("  {:<38} {:>11}  per round {:>5.2f}x\n", what, "", factor);
}

std::string comparison_lines(const Report& report) {
  std::string text;
  for (const Comparison& c : comparisons()) {
    const Ratio ratio = ratio_of(report.rows, c);
    const bool met = c.at_least ? ratio.per_round >= c.goal : ratio.per_round <= c.goal;
    text +=
        fmt::format("{:<40} best {:>5.2f}x  per round {:>5.2f}x  goal {} {:.1f}x {}\n", c.name, ratio.best,
                    ratio.per_round, c.at_least ? ">=" : "<=", c.goal, met ? "met" : "missed");
    const double bound = factor_at_limits(report.rows, c);
    if (bound > 0) text += detail_line("if both ran at their limits", bound);
  }
  return text + detail_line("fused step, without zero_grad", report.speed_up_without_zero());
}

/// What many rows have is one line, and one more for each that has it not.
std::string check_lines(const std::vector<Check>& checks) {
  std::string text;
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const Check& check = checks[i];
    if (!check.ok) {
      text += fmt::format("WRONG {}{}{}\n", check.name, check.where.empty() ? "" : ", of ", check.where);
      continue;
    }
    const auto alike = [&](const Check& other) {
      return other.ok && !other.where.empty() && other.name == check.name;
    };
    const auto here = checks.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::any_of(checks.begin(), here, alike)) continue;
    const auto count = std::count_if(here, checks.end(), alike);
    text += fmt::format("same  {}{}\n", check.name, count == 0 ? "" : fmt::format(" ({})", count));
  }
  return text;
}

}  // namespace

std::string to_text(const Report& report) {
  const Machine& m = report.machine;
  std::string text = fmt::format("{}, {} of {} cores, {}, {:.0f} % in huge pages, load {:.1f}\n", m.cpu,
                                 report.options.threads, m.cores, m.isa, 100 * m.huge_page_share, m.load);
  if (report.options.kernels()) {
    text += fmt::format("{} elements: {} MiB of gradient, master and moments; {} rounds\n\n", report.numel,
                        report.numel * 16 >> 20, report.options.kernel_rounds());
    text += table(report.rows) + '\n' + comparison_lines(report) + '\n';
  }
  if (report.options.product()) text += product_table(report) + '\n';
  if (report.options.sweep) text += sweep_tables(report);
  if (!report.saves.empty()) text += checkpoint_tables(report);
  if (!report.offload.empty()) text += offload_table(report);
  text += check_lines(report.checks);
  if (report.busy())
    text += fmt::format("\nbusy machine: {} involuntary context switches\n", report.switches());
  return text;
}

}  // namespace zeroproof::verification::bench
