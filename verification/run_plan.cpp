#include "verification/run_plan.hpp"

#include <algorithm>

#include "verification/capabilities.hpp"
#include "verification/experiment.hpp"

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

std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-./:=,+") == std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

RunConfig config_of(const VerifyOptions& options, const std::string& workload) {
  RunConfig config = workload_defaults(workload);
  if (!options.config_file.empty()) apply_toml_file(config, options.config_file);
  options.overrides(config);
  validate(config);
  for (const std::string& world : config.worlds) parse_world(world);
  return config;
}

std::vector<CaseSpec> cases_of(const VerifyOptions& options, const std::string& workload) {
  const RunConfig config = config_of(options, workload);
  std::vector<CaseSpec> cases;
  for (const DType dtype : config.dtypes) {
    for (const TwinMode& twin : twin_modes(options)) {
      for (const std::string& world : config.worlds) {
        for (const int stage : config.stages) {
          for (const std::int64_t bucket : config.bucket_numels) {
            for (const int threads : config.omp_threads) {
              cases.push_back(
                  {workload, twin.twin, stage, parse_world(world), dtype, twin.mode, bucket, threads});
            }
          }
        }
      }
    }
  }
  return cases;
}

std::vector<CaseSpec> selected_cases(const VerifyOptions& options) {
  if (options.patterns.empty()) return cases_of(options, workload_names().front());
  std::vector<CaseSpec> selected;
  std::vector<std::string> ids;
  const auto add = [&](const CaseSpec& spec) {
    if (std::find(ids.begin(), ids.end(), spec.id()) != ids.end()) return;
    ids.push_back(spec.id());
    selected.push_back(spec);
  };
  for (const std::string& pattern : options.patterns) {
    if (const auto exact = parse_case_id(pattern)) {
      workload_defaults(exact->workload);  // throws for a workload that does not exist
      add(*exact);
      continue;
    }
    // "byte_gpt" means that workload, not every id that starts with it.
    const bool is_workload =
        std::find(workload_names().begin(), workload_names().end(), pattern) != workload_names().end();
    for (const std::string& workload : workload_names()) {
      if (is_workload && workload != pattern) continue;
      for (const CaseSpec& spec : cases_of(options, workload)) {
        if (is_workload || matches(pattern, spec.id())) add(spec);
      }
    }
  }
  return selected;
}

std::string replay_line(const VerifyOptions& options, const CaseSpec& spec) {
  std::string line = options.fault.empty() ? "build/zeroproof" : "build/zeroproof-faults";
  line += " verify " + quoted(spec.id());
  for (const std::string& flag : options.replay_flags) line += " " + quoted(flag);
  return line;
}

}  // namespace zeroproof::verification
