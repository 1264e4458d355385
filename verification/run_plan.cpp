#include "verification/run_plan.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "verification/capabilities.hpp"
#include "verification/experiment.hpp"
#include "verification/recipes.hpp"
#include "verification/recorded.hpp"

namespace zeroproof::verification {
namespace {

std::vector<TwinMode> twin_modes(const VerifyOptions& options) {
  std::vector<Twin> twins = options.twins;
  if (twins.empty()) {
    twins = {Twin::host, Twin::host_fused};
    if (device_answers()) twins.push_back(Twin::device);
  }
  std::vector<TwinMode> result;
  for (const Twin twin : twins) {
    if (options.modes.empty()) {
      result.push_back({twin, twin == Twin::host_fused ? Mode::free : Mode::lockstep});
    }
    for (const Mode mode : options.modes) result.push_back({twin, mode});
  }
  return result;
}

bool is_built_in(const std::string& workload) {
  return std::find(workload_names().begin(), workload_names().end(), workload) != workload_names().end();
}

/// Recorded gradients take the place of the built-in workloads.
std::vector<std::string> workloads_of(const VerifyOptions& options) {
  return options.gradients.empty() ? workload_names() : std::vector<std::string>{recorded_workload};
}

/// Errors (ErrorCode::config): the workload does not exist, or not with these options.
void check_workload(const VerifyOptions& options, const std::string& workload) {
  if (workload == recorded_workload) {
    recorded_defaults(options.gradients);
    return;
  }
  workload_defaults(workload);
  ZP_CHECK(options.gradients.empty(), ErrorCode::config,
           "workload '" + workload + "' was asked for with --gradients", "it computes its own",
           "leave one of the two out");
}

RunConfig unchecked_config(const VerifyOptions& options, const std::string& workload) {
  const bool recorded = workload == recorded_workload;
  RunConfig config = recorded ? recorded_defaults(options.gradients) : workload_defaults(workload);
  if (!options.config_file.empty()) apply_toml_file(config, options.config_file);
  options.overrides(config);
  return config;
}

/// The recipes whose cases a workload has when none are named: the configured step, and all others where steps are
/// cheap.
std::vector<std::string> recipes_of(const VerifyOptions& options, const std::string& workload,
                                    const RunConfig& config) {
  if (!options.recipes.empty()) return options.recipes;
  std::vector<std::string> names = {configured_recipe(config)};
  if (workload != "byte_gpt_tiny") return names;
  for (const Recipe& recipe : recipes()) {
    if (recipe.name != names.front()) names.emplace_back(recipe.name);
  }
  return names;
}

}  // namespace

RunConfig config_of(const VerifyOptions& options, const CaseSpec& spec) {
  RunConfig config = under_recipe(unchecked_config(options, spec.workload), spec.recipe);
  config.dtypes = {spec.dtype};
  validate(config);
  if (spec.workload == recorded_workload) check_recorded(config, options.gradients);
  return config;
}

RunConfig config_of(const VerifyOptions& options, const std::string& workload) {
  const RunConfig config = unchecked_config(options, workload);
  validate(config);
  if (workload == recorded_workload) check_recorded(config, options.gradients);
  for (const std::string& world : config.worlds) parse_world(world);
  return config;
}

std::vector<CaseSpec> cases_of(const VerifyOptions& options, const std::string& workload) {
  const RunConfig config = config_of(options, workload);
  std::vector<CaseSpec> cases;
  const auto add_steps = [&](const std::string& recipe, DType dtype, const TwinMode& twin) {
    for (const std::string& world : config.worlds) {
      for (const int stage : config.stages) {
        for (const std::int64_t bucket : config.bucket_numels) {
          for (const int threads : config.omp_threads) {
            cases.push_back(
                {workload, recipe, twin.twin, stage, parse_world(world), dtype, twin.mode, bucket, threads});
          }
        }
      }
    }
  };
  for (const std::string& recipe : recipes_of(options, workload, config)) {
    under_recipe(config, recipe);  // throws for a recipe that does not exist
    for (const DType dtype : config.dtypes) {
      if (!recipe_allows(recipe, dtype)) continue;
      for (const TwinMode& twin : twin_modes(options)) add_steps(recipe, dtype, twin);
    }
  }
  return cases;
}

std::vector<CaseSpec> selected_cases(const VerifyOptions& options) {
  const std::vector<std::string> workloads = workloads_of(options);
  if (options.patterns.empty()) return cases_of(options, workloads.front());
  std::vector<CaseSpec> selected;
  std::vector<std::string> ids;
  const auto add = [&](const CaseSpec& spec) {
    if (std::find(ids.begin(), ids.end(), spec.id()) != ids.end()) return;
    ids.push_back(spec.id());
    selected.push_back(spec);
  };
  for (const std::string& pattern : options.patterns) {
    if (const auto exact = parse_case_id(pattern)) {
      check_workload(options, exact->workload);
      add(*exact);
      continue;
    }
    // "byte_gpt" means that workload, not every id that starts with it.
    const bool is_workload = pattern == recorded_workload || is_built_in(pattern);
    if (is_workload) check_workload(options, pattern);
    for (const std::string& workload : workloads) {
      if (is_workload && workload != pattern) continue;
      for (const CaseSpec& spec : cases_of(options, workload)) {
        if (is_workload || matches(pattern, spec.id())) add(spec);
      }
    }
  }
  return selected;
}

}  // namespace zeroproof::verification
