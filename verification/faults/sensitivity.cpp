#include "verification/faults/sensitivity.hpp"

#include <algorithm>

#include "verification/cli/program/plant.hpp"
#include "verification/faults/blind_faults.hpp"
#include "verification/faults/fault_plan.hpp"

namespace zeroproof::verification {
namespace {

/// The most seconds that ranks wait for one that a fault stops; without a fault they arrive in time.
constexpr double fault_timeout_s = 10;

bool catches(VerifyOptions options, const std::string& id, std::string_view fault) {
  options.patterns = {id};
  options.fault = fault;
  options.replay_flags.insert(options.replay_flags.end(), {"--fault", options.fault});
  options.overrides = [first = options.overrides](RunConfig& config) {
    first(config);
    config.comm_timeout_s = std::min(config.comm_timeout_s, fault_timeout_s);
  };
  return run_one_case(options).status == Status::fail;
}

}  // namespace

std::optional<Sensitivity> sensitivity_of(const VerifyOptions& options, const std::string& id,
                                          const ProgressSink& progress) {
  if (!faults_built() || options.plugin || !options.fault.empty()) return std::nullopt;
  const std::vector<const Fault*> faults = blind_faults(options, id);
  if (faults.empty()) return std::nullopt;
  Sensitivity sensitivity;
  for (const Fault* fault : faults) {
    progress(static_cast<double>(sensitivity.faults) / static_cast<double>(faults.size()),
             std::string(fault->id));
    ++sensitivity.faults;
    if (!catches(options, id, fault->id)) sensitivity.missed.emplace_back(fault->id);
  }
  return sensitivity;
}

}  // namespace zeroproof::verification
