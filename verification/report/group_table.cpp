#include "verification/report/group_table.hpp"

#include <algorithm>
#include <optional>

#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

struct Row {
  std::string group, exactness;
  std::int64_t cases = 0, compared = 0, differing = 0, mistrusted = 0, skipped = 0;
  std::optional<Status> failure = std::nullopt;  ///< of the first case that failed
  double worst_ratio = 0;
  std::optional<JudgedBy> judged = {};

  void add(const Result& result) {
    ++cases;
    compared += result.compared;
    differing += result.differing;
    worst_ratio = std::max(worst_ratio, result.worst_ratio);
    if (result.judged) (judged ? *judged : judged.emplace()).add(*result.judged);
    skipped += result.status == Status::skipped ? 1 : 0;
    mistrusted += result.status == Status::mistrusted ? 1 : 0;
    if (!failure && failed(result.status)) failure = result.status;
  }

  std::string verdict(const Paint& paint) const {
    if (differing > 0) return paint("31", "DIFFER");
    if (failure) return paint("31", std::string(name(*failure)));
    if (skipped == cases) return paint("33", "skipped");
    if (mistrusted + skipped == cases) return paint("33", "mistrusted");
    if (exactness == "bounded")
      return paint("32", fmt::format("error {:.2g} of its bound, headroom {:.0f} %", worst_ratio,
                                     100 * (1 - worst_ratio)));
    return paint("32", "equal");
  }
};

}  // namespace

std::string group_table(const RunReport& report, const std::string& suite, const std::string& title,
                        const std::string& column, bool colour, const std::string& truth) {
  std::vector<Row> rows;
  std::vector<std::string> sides;
  for (const Result& result : report.results) {
    if (result.suite != suite) continue;
    const auto same = [&](const Row& row) { return row.group == result.group; };
    auto row = std::find_if(rows.begin(), rows.end(), same);
    if (row == rows.end()) row = rows.insert(row, Row{result.group, result.exactness});
    row->add(result);
    const bool known = std::find(sides.begin(), sides.end(), result.side) != sides.end();
    if (!known && result.status != Status::skipped) sides.push_back(result.side);
  }
  if (rows.empty()) return {};
  std::string out = "\n" + title + ":";
  for (std::size_t i = 0; i < sides.size(); ++i) out += (i > 0 ? ", " : " ") + sides[i];
  out += fmt::format(" against {}\n{:<30} {:<8} {:>5} {:>15} {:>12}\n",
                     report.held_to.empty() ? truth : report.held_to, column, "class", "cases",
                     "compared", "differing");
  for (const Row& row : rows) {
    out += fmt::format("{:<30} {:<8} {:>5} {:>15} {:>12}  {}\n", row.group, row.exactness,
                       row.cases - row.skipped, grouped(row.compared), grouped(row.differing),
                       row.verdict(Paint{colour}));
    if (row.judged && row.judged->total() > 0) out += "  judged: " + to_string(*row.judged) + "\n";
  }
  return out;
}

}  // namespace zeroproof::verification
