#include <nlohmann/json.hpp>

#include "verification/bench/device/report.hpp"

namespace zeroproof::verification::bench {
namespace {

using Json = nlohmann::ordered_json;

Json row_value(const Group& group, const Row& row) {
  Json value = {{"name", row.name},         {"kind", row.shape.empty() ? "device" : "limit"},
                {"numel", row.numel},       {"best_s", row.best()},
                {"median_s", row.median()}, {"samples_s", row.seconds}};
  if (row.num_bytes > 0) value["bytes_per_element"] = row.num_bytes;
  if (row.limits.empty()) return value;
  const Ratio ratio = ratio_to_limit(group.rows, row);
  Json limits = Json::array();
  for (const std::string& shape : row.limits) limits.push_back(best_limit(group.rows, shape)->name);
  value["limits"] = std::move(limits);
  value["limit_gb_per_s"] = ratio.limit_gbs;
  value["ratio_best"] = ratio.best;
  value["ratio_per_round"] = ratio.per_round;
  return value;
}

Json group_value(const Group& group, bool judged) {
  Json value = {{"title", group.title}};
  if (!group.missing.empty()) {
    value["not_measured"] = group.missing;
    return value;
  }
  Json rows = Json::array();
  for (const Row& row : group.rows) rows.push_back(row_value(group, row));
  Json figures = Json::array();
  for (const Figure& figure : group.figures) {
    Json one = {{"name", figure.name}, {"value", figure.value}};
    if (!figure.unit.empty()) one["unit"] = figure.unit;
    if (figure.goal > 0 && judged) {
      one[figure.at_least ? "goal_at_least" : "goal_at_most"] = figure.goal;
      one["met"] = figure.met();
    }
    figures.push_back(std::move(one));
  }
  value["rows"] = std::move(rows);
  value["figures"] = std::move(figures);
  return value;
}

}  // namespace

std::string to_json(const DeviceReport& report) {
  const Machine& m = report.machine;
  Json groups = Json::array();
  for (const Group& group : report.groups) groups.push_back(group_value(group, !report.simulated()));
  Json checks = Json::array();
  for (const Check& check : report.checks) {
    Json one = {{"name", check.name}, {"ok", check.ok}};
    if (!check.where.empty()) one["where"] = check.where;
    checks.push_back(std::move(one));
  }
  const Json record = {
      {"schema", "zeroproof-bench-device/1"},
      {"device", report.device},
      {"simulated", report.simulated()},
      {"machine", {{"cpu", m.cpu}, {"cores", m.cores}, {"isa", m.isa}, {"load_average", m.load}}},
      {"rounds", report.options.rounds},
      {"groups", std::move(groups)},
      {"checks", std::move(checks)}};
  return record.dump(2) + "\n";
}

}  // namespace zeroproof::verification::bench
