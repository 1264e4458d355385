#include <nlohmann/json.hpp>

#include "verification/bench/report.hpp"

namespace zeroproof::verification::bench {
namespace {

using Json = nlohmann::ordered_json;

Json row_value(const Report& report, const Row& row) {
  const double per_element = 1e9 / static_cast<double>(row.numel);
  Json samples = Json::array();
  for (const double seconds : row.seconds) samples.push_back(seconds * per_element);
  Json value = {{"name", row.name},
                {"kind", row.shape.empty() ? "twin" : "limit"},
                {"bytes_per_element", row.num_bytes},
                {"numel", row.numel},
                {"best_ns", row.best() * per_element},
                {"median_ns", row.median() * per_element},
                {"best_gb_per_s", row.num_bytes * static_cast<double>(row.numel) / row.best() / 1e9},
                {"involuntary_switches", row.switches},
                {"samples_ns", std::move(samples)}};
  if (row.limits.empty()) return value;
  const Ratio ratio = ratio_to_limit(report.rows, row);
  Json limits = Json::array();
  for (const std::string& shape : row.limits) limits.push_back(best_limit(report.rows, shape)->name);
  value["limits"] = std::move(limits);
  value["limit_gb_per_s"] = ratio.limit_gbs;
  value["ratio_best"] = ratio.best;
  value["ratio_per_round"] = ratio.per_round;
  if (row.goal > 0) value["goal"] = row.goal;
  return value;
}

}  // namespace

std::string to_json(const Report& report) {
  const Machine& m = report.machine;
  Json rows = Json::array();
  for (const Row& row : report.rows) rows.push_back(row_value(report, row));
  Json compared = Json::array();
  for (const Comparison& c : comparisons()) {
    const Ratio ratio = ratio_of(report.rows, c);
    Json value = {{"name", c.name},
                  {"fast", c.fast},
                  {"slow", c.slow},
                  {"factor_best", ratio.best},
                  {"factor_per_round", ratio.per_round},
                  {c.at_least ? "goal_at_least" : "goal_at_most", c.goal}};
    const double bound = factor_at_limits(report.rows, c);
    if (bound > 0) value["factor_at_limits"] = bound;
    compared.push_back(std::move(value));
  }
  Json checks = Json::array();
  for (const Check& check : report.checks) checks.push_back({{"name", check.name}, {"ok", check.ok}});
  const Json record = {{"schema", "zeroproof-bench/1"},
                       {"machine",
                        {{"cpu", m.cpu},
                         {"cores", m.cores},
                         {"isa", m.isa},
                         {"page_bytes", m.page_bytes},
                         {"huge_page_share", m.huge_page_share},
                         {"load_average", m.load}}},
                       {"threads", report.options.threads},
                       {"rounds", report.options.rounds},
                       {"numel", report.numel},
                       {"busy", report.busy()},
                       {"involuntary_switches", report.switches()},
                       {"fused_speed_up_without_zero_grad", report.speed_up_without_zero()},
                       {"rows", std::move(rows)},
                       {"comparisons", std::move(compared)},
                       {"checks", std::move(checks)}};
  return record.dump(2) + "\n";
}

}  // namespace zeroproof::verification::bench
