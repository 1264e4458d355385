#include <fmt/format.h>

#include <algorithm>

#include "verification/bench/ranks/report.hpp"
#include "verification/bench/ranks/suite.hpp"

namespace zeroproof::verification::bench {
namespace {

std::string row_line(const std::vector<Row>& rows, const Row& row) {
  const std::vector<double> faults(row.page_faults.begin(), row.page_faults.end());
  std::string text = fmt::format("{:<30} {:>9.3f} {:>9.3f} {:>7.0f}", row.name, 1e3 * row.best(),
                                 1e3 * row.median(), median_of(faults));
  if (row.num_bytes > 0) {
    text += fmt::format(" {:>5.0f} {:>7.1f}", row.num_bytes,
                        row.num_bytes * static_cast<double>(row.numel) / row.best() / 1e9);
  }
  if (!row.limits.empty()) {
    const Ratio ratio = ratio_to_limit(rows, row);
    text += fmt::format(" {:>7.1f} {:>6.3f} {:>9.3f}", ratio.limit_gbs, ratio.best, ratio.per_round);
  }
  return text + '\n';
}

std::string table(const std::vector<Row>& rows) {
  std::string text = fmt::format("{:<30} {:>19} {:>7} {:>5} {:>7} {:>7} {:>16}\n", "", "ms", "page", "B per",
                                 "", "limit", "ratio to limit");
  text += fmt::format("{:<30} {:>9} {:>9} {:>7} {:>5} {:>7} {:>7} {:>6} {:>9}\n", "row", "best", "median",
                      "faults", "param", "GB/s", "GB/s", "best", "per round");
  for (const Row& row : rows) {
    if (row.shape.empty() || best_limit(rows, row.shape) == &row) text += row_line(rows, row);
  }
  return text;
}

/// One rank has nothing to exchange, so no goal is judged.
std::string comparison_line(const RankReport& report, const Comparison& c) {
  const Ratio ratio = ratio_of(report.rows, c);
  std::string text =
      fmt::format("{:<48} best {:>6.2f}x  per round {:>6.2f}x", c.name, ratio.best, ratio.per_round);
  if (c.goal > 0 && report.ranks > 1)
    text += fmt::format("  goal >= {:.1f}x {}", c.goal, ratio.per_round >= c.goal ? "met" : "missed");
  return text + '\n';
}

}  // namespace

bool RankReport::ok() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.ok; });
}

std::string to_text(const RankReport& report) {
  const Machine& m = report.machine;
  std::string text = fmt::format("{}, {} cores, {}, load {:.1f}\n", m.cpu, m.cores, m.isa, m.load);
  text += fmt::format("{} ranks on this machine, {} parameters, a gradient of {} MiB per rank; {} rounds\n",
                      report.ranks, report.numel, report.options.mib, report.options.rounds);
  text += report.library + '\n';
  text += fmt::format("malloc {}{}\n", report.warm ? "warm" : "as installed",
                      report.malloc.empty() ? "" : ": " + report.malloc);
  if (report.ranks > m.cores)
    text += "more ranks than cores: a rank that waits takes the core of one that works\n";
  text += '\n' + table(report.rows) + '\n';
  for (const Comparison& c : rank_comparisons(report.warm)) text += comparison_line(report, c);
  const Row* fences = find(report.rows, "two fences");
  const Row* step = find(report.rows, "product, windows");
  if (fences != nullptr && step != nullptr)
    text += fmt::format("{:<48} {:.1f} %\n", "fences, of the step through windows",
                        100 * fences->median() / step->median());
  text += '\n';
  for (const Check& check : report.checks)
    text += fmt::format("{:<5} {}\n", check.ok ? "same" : "WRONG", check.name);
  return text;
}

}  // namespace zeroproof::verification::bench
