#include <cmath>

#include "common/base/error.hpp"
#include "verification/contract_version.hpp"
#include "verification/json_types.hpp"

namespace zeroproof::verification {
namespace {

/// JSON has no NaN: the norm of a skipped step is null.
Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json trace_value(const TrainingTrace& trace) {
  Json steps = Json::array();
  for (const TrainingStep& step : trace.steps) {
    steps.push_back({{"loss", number_or_null(step.loss)},
                     {"grad_norm", number_or_null(step.grad_norm)},
                     {"clip_coef", number_or_null(static_cast<double>(step.clip_coef))},
                     {"loss_scale", std::ldexp(1.0, step.log2_loss_scale)},
                     {"skipped", step.skipped}});
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

Json first_value(const std::optional<CheckDifference>& first) {
  if (!first) return nullptr;
  Json inputs = Json::object();
  for (const auto& [name, value] : first->inputs) inputs[name] = value;
  return {{"output", first->output},
          {"shape", first->shape},
          {"reference", first->expected},
          {"candidate", first->got},
          {"inputs", std::move(inputs)}};
}

Json check_value(const CheckResult& r) {
  return {{"id", r.id},
          {"op", r.suite},
          {"side", r.side},
          {"class", r.exactness},
          {"status", name(r.status)},
          {"reason", r.reason},
          {"replay", r.replay},
          {"compared", r.compared},
          {"differing", r.differing},
          {"legal_differences", r.legal_differences},
          {"worst_ratio", number_or_null(r.worst_ratio)},
          {"ulps",
           {{"0", r.ulps.counts[0]},
            {"1", r.ulps.counts[1]},
            {"2", r.ulps.counts[2]},
            {"3-15", r.ulps.counts[3]},
            {"16+", r.ulps.counts[4]},
            {"sign_or_nan", r.ulps.sign_or_nan},
            {"largest", r.ulps.largest}}},
          {"first", first_value(r.first)},
          {"divergence", r.divergence ? to_json_value(*r.divergence) : Json(nullptr)},
          {"seconds", r.seconds}};
}

}  // namespace

std::string to_json(const RunReport& report) {
  Json summary;
  for (int i = 0; i < num_statuses; ++i) {
    const auto status = static_cast<Status>(i);
    summary[std::string(name(status))] = report.count(status);
  }
  Json capabilities;
  for (const Capability& c : report.capabilities) {
    capabilities[c.name] = {{"available", c.available}, {"detail", c.detail}};
  }
  Json json = {
      {"schema", "zeroproof-report/1"},
      {"version", ZP_VERSION},
      {"contract", contract_version},
      {"summary", std::move(summary)},
      {"capabilities", std::move(capabilities)},
      {"input", {{"kind", report.input.kind}, {"path", report.input.path}, {"bytes", report.input.bytes}}},
      {"seconds", report.seconds},
      {"training", Json::array()},
      {"cases", Json::array()},
      {"checks", Json::array()}};
  for (const TrainingTrace& trace : report.traces) json["training"].push_back(trace_value(trace));
  for (const CaseResult& result : report.cases) json["cases"].push_back(to_json_value(result));
  for (const CheckResult& result : report.checks) json["checks"].push_back(check_value(result));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<CaseResult> cases_from_json(const std::string& text) {
  try {
    std::vector<CaseResult> cases;
    const Json report = Json::parse(text);  // named: a range-for would not keep the parsed temporary alive
    for (const Json& json : report.at("cases")) cases.push_back(case_result_from(json));
    return cases;
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::io, std::string("the report of an MPI job cannot be read: ") + error.what(),
         "its cases cannot be merged", "run the job by hand to see what it prints");
  }
}

std::int64_t RunReport::count(Status status) const {
  std::int64_t sum = 0;
  for (const CaseResult& result : cases) sum += result.status == status ? 1 : 0;
  for (const CheckResult& result : checks) sum += result.status == status ? 1 : 0;
  return sum;
}

int exit_code(const RunReport& report, bool strict) {
  if (report.count(Status::error) > 0) return 9;
  if (report.count(Status::crashed) > 0) return 6;
  if (report.count(Status::hung) > 0) return 5;
  if (report.count(Status::fail) > 0) return 1;
  if (strict && report.count(Status::mistrusted) > 0) return 1;
  return report.count(Status::pass) + report.count(Status::mistrusted) > 0 ? 0 : 4;
}

}  // namespace zeroproof::verification
