// Planted faults of operations, loaded as a plug-in: as operations, and in the steps of the fault
// plan.

#include <doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/support/paths.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/cli/program/plant.hpp"
#include "verification/faults/fault_plan.hpp"
#include "verification/interfaces/plugin/plugin_candidate.hpp"
#include "verification/interfaces/plugin/plugin_ops.hpp"
#include "verification/ops/op_case.hpp"

namespace plugin_faults_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// Operations that a fault changes, of those that a plug-in can have.
std::vector<std::string> operations_of(std::string_view fault) {
  const cuda::KernelTable right = cuda::host_ops(), wrong = plant_fault(fault, right);
  std::vector<std::string> names;
  const auto look = [&](const char* name, auto entry) {
    if (wrong.*entry != right.*entry) names.emplace_back(name);
  };
  look("adamw_update", &cuda::KernelTable::adamw_update);
  look("adam_update", &cuda::KernelTable::adam_update);
  look("sgd_update", &cuda::KernelTable::sgd_update);
  look("sgd_ema_update", &cuda::KernelTable::sgd_ema_update);
  look("lion_update", &cuda::KernelTable::lion_update);
  look("lamb_update", &cuda::KernelTable::lamb_update);
  look("unscale", &cuda::KernelTable::unscale);
  look("clip", &cuda::KernelTable::clip);
  look("muon_momentum", &cuda::KernelTable::muon_momentum);
  look("newton_schulz", &cuda::KernelTable::newton_schulz);
  look("muon_step_size", &cuda::KernelTable::muon_step_size);
  look("muon_update", &cuda::KernelTable::muon_update);
  look("clip_value", &cuda::KernelTable::clip_value);
  look("widen_bf16", &cuda::KernelTable::widen_bf16);
  look("widen_fp16", &cuda::KernelTable::widen_fp16);
  look("cast_to_bf16", &cuda::KernelTable::cast_to_bf16);
  look("cast_to_fp16", &cuda::KernelTable::cast_to_fp16);
  look("stochastic_cast_to_bf16", &cuda::KernelTable::stochastic_cast_to_bf16);
  return names;
}

std::vector<const Fault*> faults_of_operations() {
  std::vector<const Fault*> found;
  for (const Fault& fault : fault_catalogue()) {
    if (fault.kind == FaultKind::implementation && fault.phase && !operations_of(fault.id).empty())
      found.push_back(&fault);
  }
  return found;
}

/// A library with the fault. Valid until the next call: its process may start again.
std::shared_ptr<Plugin> library(std::string_view fault) {
  ::setenv("ZP_FAULT", std::string(fault).c_str(), 1);
  if (fault.empty()) ::unsetenv("ZP_FAULT");
  return std::make_shared<Plugin>(tests::build_folder() + "/plugins/faults.so", PluginLimits{},
                                  tests::build_folder() + "/zeroproof-plugin");
}

/// The first difference, in the form common to both interfaces: they report damage differently.
std::string first_of(const Result& result) {
  if (result.reason.find("outside its bounds") != std::string::npos) return "damage";
  return result.divergence ? describe(*result.divergence) + ", " + result.divergence->call
                           : "nothing";
}

/// The case of a row, with a plug-in in place of the implementations on the host.
RowOutcome run_as_plugin(const FaultCase& row, std::string_view fault) {
  std::string id(row.case_id);
  REQUIRE(id.find("/host/") != std::string::npos);
  id.replace(id.find("/host/"), 6, "/plugin/");
  const std::shared_ptr<Plugin> plugin = library(fault);
  use_in_steps(plugin);
  VerifyOptions options;
  options.patterns = {id};
  options.plugin = plugin_candidate(plugin);
  options.overrides = [&row](RunConfig& config) {
    if (row.config != nullptr) row.config(config);
  };
  const RunReport report =
      run_selection(options, select_cases(options), [](double, const std::string&) {});
  const Result& result = report.results.front();
  return {result.status, result.reason, result.divergence};
}

std::vector<Result> judged(const Op& op, const OpCandidate& candidate, std::string_view fault) {
  std::vector<OpCaseSpec> cases;
  for (const Fill fill : {Fill::training, Fill::special, Fill::ties})
    cases.push_back({&op, &candidate, fill});
  OpRunOptions options;
  options.fault = fault;
  return run_op_cases(cases, options);
}

bool any_failed(const std::vector<Result>& results) {
  return std::ranges::any_of(results, [](const Result& result) { return failed(result.status); });
}

}  // namespace

TEST_CASE("nightly: plug-in faults: the judge finds production's faults in operations") {
  int planted = 0, implementation_caught = 0, plugin_caught = 0;
  for (const Fault* fault : faults_of_operations()) {
    bool by_implementation = false, by_plugin = false;
    for (const std::string& name : operations_of(fault->id)) {
      const std::string place = std::string(fault->id) + " in " + name;
      CAPTURE(place);
      const Op& op = *find_op(name);
      const std::vector<Result> implementation =
          judged(op, host_candidate(Isa::x86_64_v3), fault->id);
      const std::vector<Result> plugin = judged(op, *plugin_candidate(library(fault->id)), "");
      for (std::size_t i = 0; i < implementation.size(); ++i) {
        CAPTURE(implementation[i].reason);
        CAPTURE(plugin[i].reason);
        CHECK(failed(implementation[i].status) == failed(plugin[i].status));
        CHECK(first_of(implementation[i]) == first_of(plugin[i]));
      }
      by_implementation = by_implementation || any_failed(implementation);
      by_plugin = by_plugin || any_failed(plugin);
    }
    ++planted;
    implementation_caught += by_implementation ? 1 : 0;
    plugin_caught += by_plugin ? 1 : 0;
    if (!by_plugin) std::printf("not found in operations: %s\n", std::string(fault->id).c_str());
  }
  std::printf("operations: %d faults, found in production %d, in a plug-in %d\n", planted,
              implementation_caught, plugin_caught);
  CHECK(planted >= 15);
  CHECK(plugin_caught == implementation_caught);
}

TEST_CASE("nightly: plug-in faults: without one the library reads settings in fp64") {
  for (const char* name : {"newton_schulz", "muon_step_size"}) {
    CAPTURE(name);
    const std::vector<Result> results = judged(*find_op(name), *plugin_candidate(library("")), "");
    for (const Result& result : results) {
      CAPTURE(result.reason);
      CHECK(result.status == Status::pass);
    }
  }
}

TEST_CASE("nightly: plug-in faults: the judge finds each at its place in a step") {
  int planted = 0, caught = 0;
  for (const Fault* fault : faults_of_operations()) {
    const FaultCase& row = plan_of(fault->id);
    CAPTURE(row.fault);
    const RowOutcome outcome = run_as_plugin(row, fault->id);
    CAPTURE(outcome.reason);
    const FaultFinding finding = judge_fault(*fault, row, outcome);
    CHECK(outcome.status == Status::fail);
    const bool damage =
        row.says ==
        "has a number in its padding";  // a plug-in has no padding: it is caught at its call
    CHECK((finding.exact || damage));
    if (damage) CHECK(outcome.reason.find("outside") != std::string::npos);
    ++planted;
    caught += outcome.status == Status::fail ? 1 : 0;
  }
  std::printf("steps: %d faults, found in a plug-in %d\n", planted, caught);
  CHECK(caught == planted);
  for (const char* fault : {"do-nothing", "dampening-in-first-step", "lion-one-average",
                            "lamb-ratio-not-applied"}) {  // without the fault
    CHECK(run_as_plugin(plan_of(fault), "").status == Status::pass);
  }
}

}  // namespace plugin_faults_test
