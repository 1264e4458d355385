#include <nlohmann/json.hpp>

#include "verification/bench/ranks/report.hpp"
#include "verification/bench/ranks/suite.hpp"

namespace zeroproof::verification::bench {
namespace {

using Json = nlohmann::ordered_json;

Json row_value(const RankReport& report, const Row& row) {
  Json value = {{"name", row.name},
                {"kind", row.shape.empty() ? "step" : "limit"},
                {"best_s", row.best()},
                {"median_s", row.median()},
                {"involuntary_switches", row.switches},
                {"samples_s", row.seconds},
                {"page_faults", row.page_faults}};
  if (row.num_bytes > 0) value["bytes_per_parameter"] = row.num_bytes;
  if (row.limits.empty()) return value;
  const Ratio ratio = ratio_to_limit(report.rows, row);
  value["limit_gb_per_s"] = ratio.limit_gbs;
  value["ratio_best"] = ratio.best;
  value["ratio_per_round"] = ratio.per_round;
  return value;
}

}  // namespace

std::string to_json(const RankReport& report) {
  const Machine& m = report.machine;
  Json rows = Json::array();
  for (const Row& row : report.rows) rows.push_back(row_value(report, row));
  Json compared = Json::array();
  for (const Comparison& c : rank_comparisons(report.warm)) {
    const Ratio ratio = ratio_of(report.rows, c);
    Json value = {{"name", c.name},
                  {"fast", c.fast},
                  {"slow", c.slow},
                  {"factor_best", ratio.best},
                  {"factor_per_round", ratio.per_round}};
    if (c.goal > 0 && report.ranks > 1) value["goal_at_least"] = c.goal;
    compared.push_back(std::move(value));
  }
  Json checks = Json::array();
  for (const Check& check : report.checks) checks.push_back({{"name", check.name}, {"ok", check.ok}});
  const Json record = {
      {"schema", "zeroproof-bench-ranks/2"},
      {"machine", {{"cpu", m.cpu}, {"cores", m.cores}, {"isa", m.isa}, {"load_average", m.load}}},
      {"library", report.library},
      {"malloc", {{"warm", report.warm}, {"settings", report.malloc}}},
      {"ranks", report.ranks},
      {"rounds", report.options.rounds},
      {"numel", report.numel},
      {"rows", std::move(rows)},
      {"comparisons", std::move(compared)},
      {"checks", std::move(checks)}};
  return record.dump(2) + "\n";
}

}  // namespace zeroproof::verification::bench
