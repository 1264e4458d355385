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

Json spread_value(const std::vector<double>& ratios) {
  const Spread spread = spread_of(ratios);
  return {{"min", spread.least}, {"median", spread.median}, {"max", spread.most}, {"per_round", ratios}};
}

Json case_value(const ProductCase& what) {
  return {{"micro_batches", what.micro_batches},
          {"tensors", what.tensors},
          {"stage", what.stage},
          {"grad_dtype", name(what.grad_dtype)},
          {"numel", what.numel},
          {"bucket_numel", what.bucket_numel},
          {"ranks", what.ranks}};
}

Json product_value(const ProductResult& one) {
  Json value = case_value(one.what);
  value["bytes_per_parameter"] = one.num_bytes;
  value["best_s"] = one.step.best();
  value["median_s"] = one.step.median();
  value["samples_s"] = one.step.seconds;
  value["reduce_samples_s"] = one.reduce_seconds;
  value["twins_samples_s"] = one.twins.seconds;
  value["addition_samples_s"] = one.addition.seconds;
  value["limit_samples_s"] = one.limit_seconds;
  value["step_to_twins"] = spread_value(one.step_to_twins());
  value["step_to_limit"] = spread_value(one.step_to_limit());
  value["reduce_per_leaf_to_addition"] = spread_value(one.reduce_to_addition());
  value["page_faults"] = one.step.page_faults;
  value["involuntary_switches"] = one.step.switches;
  return value;
}

Json axis_value(const SweepAxis& axis) {
  Json points = Json::array();
  for (std::size_t i = 0; i < axis.points.size(); ++i) {
    const SweepPoint& point = axis.points[i];
    Json value = case_value(point.what);
    value["x"] = point.x;
    value["best_s"] = std::ranges::min(point.seconds);
    value["median_s"] = median_of(point.seconds);
    value["samples_s"] = point.seconds;
    value["probe_samples_s"] = point.probe_seconds;
    value["settled_s"] = point.settled;
    value["fit_s"] = axis.fit.at(point.x);
    value["residual"] = axis.residuals[i];
    points.push_back(std::move(value));
  }
  return {{"axis", axis.name},
          {"fixed", axis.fixed},
          {"intercept_s", axis.fit.intercept},
          {"slope_s", axis.fit.slope},
          {"worst_residual", axis.worst_residual()},
          {"points", std::move(points)}};
}

Json save_value(const SaveResult& one) {
  return {{"ranks", one.what.ranks},
          {"numel", one.what.numel},
          {"bytes", one.num_bytes},
          {"steps", SaveResult::steps},
          {"raw_samples_s", one.raw},
          {"best_samples_s", one.best},
          {"save_samples_s", one.save},
          {"steps_samples_s", one.alone},
          {"steps_beside_save_samples_s", one.beside},
          {"copy_samples_s", one.copy},
          {"raw_to_save", spread_value(one.raw_to_save())},
          {"best_to_save", spread_value(one.best_to_save())},
          {"beside_to_alone", spread_value(one.beside_to_alone())}};
}

Json offload_value(const OffloadResult& one) {
  return {{"fraction", one.what.offload.fraction},
          {"place", name(one.what.offload.place)},
          {"numel", one.what.numel},
          {"chunk_numel", one.what.offload.chunk_numel},
          {"plain_samples_s", one.plain},
          {"moved_samples_s", one.moved},
          {"moved_bytes", one.moved_bytes()},
          {"step_samples_s", one.step},
          {"step_to_floor", spread_value(one.step_to_floor())}};
}

Json comparison_values(const Report& report) {
  Json compared = Json::array();
  if (!report.options.kernels()) return compared;
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
  return compared;
}

}  // namespace

std::string to_json(const Report& report) {
  const Machine& m = report.machine;
  Json rows = Json::array();
  for (const Row& row : report.rows) rows.push_back(row_value(report, row));
  Json product = Json::array();
  for (const ProductResult& one : report.product) product.push_back(product_value(one));
  Json sweep = Json::array();
  for (const SweepAxis& axis : report.sweep.axes) sweep.push_back(axis_value(axis));
  Json saves = Json::array();
  for (const SaveResult& one : report.saves) saves.push_back(save_value(one));
  Json offload = Json::array();
  for (const OffloadResult& one : report.offload) offload.push_back(offload_value(one));
  Json checks = Json::array();
  for (const Check& check : report.checks) {
    checks.push_back({{"name", check.name}, {"ok", check.ok}});
    if (!check.where.empty()) checks.back()["where"] = check.where;
  }
  const Json record = {{"schema", "zeroproof-bench/2"},
                       {"machine",
                        {{"cpu", m.cpu},
                         {"cores", m.cores},
                         {"isa", m.isa},
                         {"page_bytes", m.page_bytes},
                         {"huge_page_share", m.huge_page_share},
                         {"load_average", m.load}}},
                       {"threads", report.options.threads},
                       {"rounds", report.options.kernel_rounds()},
                       {"product_rounds", report.options.product_rounds()},
                       {"sweep_passes", report.options.sweep_passes()},
                       {"numel", report.numel},
                       {"busy", report.busy()},
                       {"involuntary_switches", report.switches()},
                       {"fused_speed_up_without_zero_grad", report.speed_up_without_zero()},
                       {"rows", std::move(rows)},
                       {"comparisons", comparison_values(report)},
                       {"product", std::move(product)},
                       {"sweep", std::move(sweep)},
                       {"checkpoint", std::move(saves)},
                       {"offload", std::move(offload)},
                       {"checks", std::move(checks)}};
  return record.dump(2) + "\n";
}

}  // namespace zeroproof::verification::bench
