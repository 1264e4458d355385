#include "verification/tools/judge_run/steps_suite.hpp"

#include <algorithm>

#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

/// One step, or consecutive steps with the same verdicts.
struct StepsRow {
  std::string first, last;
  std::vector<const Result*> worst;  ///< [phases]
};

/// "000003" of judge-run/norm/step000003, without zeros in front.
std::string step_of(const Result& result) {
  return std::to_string(std::stoll(result.id.substr(result.id.rfind("step") + 4)));
}

std::size_t phases_of(const RunReport& report) {
  const auto& results = report.results;
  const auto other = std::ranges::find_if(
      results, [&](const Result& r) { return step_of(r) != step_of(results.front()); });
  return static_cast<std::size_t>(other - results.begin());
}

}  // namespace

std::string StepsSuite::table(const RunReport& report, const TextStyle& style) const {
  const std::size_t phases = report.results.empty() ? 0 : phases_of(report);
  std::vector<StepsRow> rows;
  for (std::size_t i = 0; i + phases <= report.results.size() && phases > 0; i += phases) {
    StepsRow row;
    row.first = row.last = step_of(report.results[i]);
    for (std::size_t k = 0; k < phases; ++k) row.worst.push_back(&report.results[i + k]);
    const auto joins = [&](const Result* now, const Result* before) {
      return !failed(now->status) && now->status == before->status && columns_.alike(*now, *before);
    };
    if (rows.empty() || !std::ranges::equal(row.worst, rows.back().worst, joins)) {
      rows.push_back(std::move(row));
      continue;
    }
    rows.back().last = row.last;
    for (std::size_t k = 0; k < phases; ++k) {
      if (row.worst[k]->worst_ratio > rows.back().worst[k]->worst_ratio)
        rows.back().worst[k] = row.worst[k];
    }
  }
  const Paint paint{style.colour};
  constexpr std::size_t most_rows = 40;
  std::string out = fmt::format("\n{:<14}", "step");
  for (std::size_t k = 0; k < phases; ++k)
    out += fmt::format("{:>{}}", report.results[k].group, columns_.width);
  out += "\n";
  for (std::size_t i = 0; i < rows.size() && i < most_rows; ++i) {
    const StepsRow& row = rows[i];
    out += fmt::format("{:<14}", row.first == row.last ? row.first : row.first + " to " + row.last);
    for (const Result* result : row.worst) {
      const std::string padded = fmt::format("{:>{}}", columns_.cell(*result), columns_.width);
      out += failed(result->status) ? paint("31", padded) : padded;
    }
    out += "\n";
  }
  if (rows.size() > most_rows)
    out += fmt::format("... and {} more rows; the JSON report has every step\n",
                       grouped(static_cast<std::int64_t>(rows.size() - most_rows)));
  return out + columns_.legend;
}

}  // namespace zeroproof::verification
