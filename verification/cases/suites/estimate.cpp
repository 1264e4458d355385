#include "verification/cases/suites/estimate.hpp"

#include <map>
#include <set>
#include <tuple>

#include "common/base/parallel_for.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/recorded.hpp"
#include "verification/training/lbfgs/lbfgs_case.hpp"

namespace zeroproof::verification {
namespace {

// Seconds of one core, from runs of single cases in November 2026 (x86-64-v4, g++ 12).
constexpr double grad_per_parameter_and_byte = 0.7e-9;  // of a micro-batch, forwards and backwards
constexpr double grad_read_per_parameter = 1e-9;        // of a recorded micro-batch
constexpr double step_per_parameter =
    160e-9;                               // of one case: both implementations, and every comparison
constexpr double step_per_rank = 1.5e-3;  // of one case, of any size: threads, phases, digests
constexpr double job_start = 1.0;         // mpirun
constexpr double per_op_case = 35e-3;
constexpr double per_lbfgs_rank = 40e-3;
constexpr double per_control = 0.25;
constexpr double per_resume = 0.1;

/// The gradients of a step of one workload, shared by all of its cases.
struct StepCost {
  double parameters = 0, gradients = 0, steps = 0;
};

StepCost cost_of(const VerifyOptions& options, const std::string& workload) {
  const RunConfig config = config_of(options, workload);
  StepCost cost;
  cost.steps = static_cast<double>(config.steps);
  const ModelConfig& m = config.model;
  const bool recorded = workload == recorded_workload;
  const auto params = recorded ? workload::open_recorded(options.gradients)->params()
                               : workload::byte_gpt_params(model_shape(workload, m));
  for (const ParamSpec& param : params) cost.parameters += static_cast<double>(param.numel());
  const double per_parameter =
      recorded ? grad_read_per_parameter : grad_per_parameter_and_byte * m.context;
  cost.gradients = static_cast<double>(config.micro_batches) * cost.parameters * per_parameter;
  return cost;
}

double training_seconds(const VerifyOptions& options, const std::vector<CaseSpec>& cases) {
  std::map<std::string, StepCost> costs;
  std::set<std::tuple<std::string, std::string, DType>> trainings;
  std::set<std::pair<std::string, std::string>> jobs;
  double seconds = 0;
  for (const CaseSpec& spec : cases) {
    if (costs.count(spec.workload) == 0) costs[spec.workload] = cost_of(options, spec.workload);
    const StepCost& cost = costs[spec.workload];
    seconds +=
        cost.steps * (step_per_parameter * cost.parameters + step_per_rank * spec.world.size);
    trainings.insert({spec.workload, spec.recipe, spec.dtype});
    if (spec.world.has_processes()) jobs.insert({spec.workload, spec.world.id()});
  }
  for (const auto& training : trainings) {
    const StepCost& cost = costs[std::get<0>(training)];
    seconds += cost.steps * cost.gradients;
  }
  return seconds + job_start * static_cast<double>(jobs.size());
}

}  // namespace

double estimated_seconds(const VerifyOptions& options, const Selection& selection) {
  double alone = 0;
  std::vector<CaseSpec> trainings;
  for (const auto& [suite, ids] : selection.parts) {
    const auto count = static_cast<double>(ids.size());
    if (suite->name() == "op") alone += per_op_case * count;
    if (suite->name() == "controls") alone += per_control * count;
    for (const std::string& id : ids) {
      if (suite->name() == "lbfgs") alone += per_lbfgs_rank * lbfgs_cases(id).front().world.size;
      if (suite->name() == "resume") alone += per_resume;
      if (suite->name() == "training") trainings.push_back(*parse_case_id(id));
    }
  }
  return alone + training_seconds(options, trainings) / available_cores();
}

}  // namespace zeroproof::verification
