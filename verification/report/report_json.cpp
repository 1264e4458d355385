#include <cmath>

#include "common/base/error.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/report/json_types.hpp"

namespace zeroproof::verification {
namespace {

Json trace_value(const TrainingTrace& trace) {
  Json steps = Json::array();
  for (const TrainingStep& step : trace.steps) {
    Json value = {{"loss", number_or_null(step.loss)},
                  {"grad_norm", number_or_null(step.grad_norm)},
                  {"clip_coef", number_or_null(static_cast<double>(step.clip_coef))},
                  {"loss_scale", std::ldexp(1.0, step.log2_loss_scale)},
                  {"skipped", step.skipped}};
    Json groups = Json::array();
    for (const ClipGroupStep& group : step.clip_groups) {
      groups.push_back({{"name", group.name},
                        {"grad_norm", number_or_null(group.grad_norm)},
                        {"clip_coef", number_or_null(static_cast<double>(group.clip_coef))}});
    }
    if (!step.clip_groups.empty()) value["clip_groups"] = std::move(groups);
    steps.push_back(std::move(value));
  }
  return {{"workload", trace.workload},
          {"recipe", trace.recipe},
          {"dtype", name(trace.dtype)},
          {"parameters", trace.parameters},
          {"micro_batches", trace.micro_batches},
          {"context", trace.context},
          {"trajectory_hash", trace.hash ? Json(to_hex(*trace.hash)) : Json(nullptr)},
          {"steps", std::move(steps)}};
}

}  // namespace

std::string to_json(const RunReport& report) {
  Json summary;
  for (int i = 0; i < num_statuses; ++i) {
    const auto status = static_cast<Status>(i);
    summary[std::string(name(status))] = report.count(status);
  }
  Json capabilities = Json::object();
  for (const Capability& c : report.capabilities) {
    capabilities[c.name] = {{"available", c.available}, {"detail", c.detail}};
  }
  Json json = {
      {"schema", "zeroproof-report/2"},
      {"version", ZP_VERSION},
      {"contract", contract_version},
      {"summary", std::move(summary)},
      {"capabilities", std::move(capabilities)},
      {"input",
       {{"kind", report.input.kind}, {"path", report.input.path}, {"bytes", report.input.bytes}}},
      {"seconds", report.seconds},
      {"notes", Json(report.notes)},
      {"training", Json::array()},
      {"cases", Json::array()}};
  if (report.self_test) {
    const SelfTest& test = *report.self_test;
    json["self_test"] = {
        {"rows", test.rows}, {"differing", test.differing}, {"not_run", test.not_run}};
  }
  for (const TrainingTrace& trace : report.traces) json["training"].push_back(trace_value(trace));
  for (const Result& result : report.results) json["cases"].push_back(to_json_value(result));
  return json.dump(1) + "\n";
}

std::vector<Result> results_from_json(const std::string& text) {
  try {
    std::vector<Result> results;
    const Json report =
        Json::parse(text);  // named: a range-for would not keep the parsed temporary alive
    for (const Json& json : report.at("cases")) results.push_back(result_from(json));
    return results;
  } catch (const JsonError& error) {
    fail(ErrorCode::io, std::string("the report of an MPI job cannot be read: ") + error.what(),
         "its cases cannot be merged", "run the job by hand to see its output");
  }
}

std::int64_t RunReport::count(Status status) const {
  std::int64_t sum = 0;
  for (const Result& result : results) sum += result.status == status ? 1 : 0;
  return sum;
}

int exit_code(const RunReport& report, bool strict) {
  if (report.count(Status::error) > 0) return 9;
  if (report.count(Status::crashed) > 0) return 6;
  if (report.count(Status::hung) > 0) return 5;
  if (report.count(Status::fail) + report.count(Status::tampered) > 0) return 1;
  if (report.self_test && !report.self_test->differing.empty()) return 1;
  if (strict && report.count(Status::mistrusted) > 0) return 1;
  return report.count(Status::pass) > 0 ? 0 : 4;
}

}  // namespace zeroproof::verification
