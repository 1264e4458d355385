#include "verification/cli/chosen_cases.hpp"

#include <algorithm>
#include <cstdlib>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "cuda/device/runtime/device.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/obstacle.hpp"
#include "verification/cli/covering_rows.hpp"
#include "verification/cli/flag_scope.hpp"
#include "verification/cli/program/capabilities.hpp"
#include "verification/cli/program/device_capabilities.hpp"
#include "verification/faults/blind_faults.hpp"
#include "verification/ops/op_case.hpp"
#include "verification/training/ranks/mpi_environment.hpp"

namespace zeroproof::verification {
namespace {

constexpr int most_ranks_per_core = 4;

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Whether ranks that are processes may be on other machines.
bool names_hosts(const CaseFlags& flags) {
  return !flags.hostfile.empty() || std::getenv("ZP_HOSTFILE") != nullptr;
}

/// Cases that cannot run are skipped, except if they were requested by name or no others are left.
class Obstacles {
 public:
  void look_at(const std::string& id, const std::string& why, bool asked) {
    ++(why.empty() ? runnable_ : blocked_);
    if (first_.empty() && !why.empty()) first_ = id + " cannot run here: " + why;
    if (!why.empty() && asked) refuse(id + " was requested and cannot run here: " + why);
  }

  void require_some(std::size_t others) const {
    if (blocked_ > 0 && runnable_ + others == 0)
      refuse("none of the requested cases can run: " + first_);
  }

 private:
  [[noreturn]] static void refuse(const std::string& problem) {
    fail(ErrorCode::unavailable, problem, "it would not be checked",
         "leave it out; zeroproof doctor lists the capabilities of this machine");
  }

  std::size_t runnable_ = 0, blocked_ = 0;
  std::string first_;
};

/// Worlds other than a workload's own come from a flag or a configuration file.
bool names_worlds(const CaseFlags& flags, const VerifyOptions& options, const CaseSpec& spec) {
  if (!flags.worlds.empty()) return true;
  return options.gradients.empty() &&
         config_of(options, spec.workload).worlds != workload_defaults(spec.workload).worlds;
}

void check_obstacles(const CaseFlags& flags, const VerifyOptions& options,
                     const Selection& selection) {
  Obstacles obstacles;
  std::vector<const OpCandidate*> others_given;
  if (options.plugin) others_given.push_back(options.plugin.get());
  std::size_t others = 0;
  for (const auto& [suite, ids] : selection.parts) {
    const std::string kind = suite->name();
    if (kind != "training" && kind != "op") others += ids.size();
    for (const std::string& id : ids) {
      const bool named = asked_by_name(flags, id);
      if (kind == "training") {
        const CaseSpec spec = *parse_case_id(id);
        obstacles.look_at(id, obstacle(spec, names_hosts(flags)),
                          named || names_worlds(flags, options, spec));
      } else if (kind == "op") {
        const OpCaseSpec spec = op_cases(id, others_given).front();
        const bool device = spec.candidate->kind() == Implementation::device;
        obstacles.look_at(id, spec.candidate->obstacle(*spec.op),
                          named || (device && has(flags.implementations, "device")));
      }
    }
  }
  obstacles.require_some(others);
}

std::vector<CaseSpec> trainings_of(const Selection& selection) {
  std::vector<CaseSpec> specs;
  for (const auto& [suite, ids] : selection.parts) {
    if (suite->name() != "training") continue;
    for (const std::string& id : ids) specs.push_back(*parse_case_id(id));
  }
  return specs;
}

/// Ranks that share a core take turns; with many more, a machine does little else, or runs out of memory.
void check_ranks(const CaseFlags& flags, const Selection& selection) {
  if (flags.oversubscribe || names_hosts(flags) || inside_mpi_job()) return;
  const int most = most_ranks_per_core * available_cores();
  for (const CaseSpec& spec : trainings_of(selection)) {
    const bool fits = !spec.world.has_processes() || spec.world.size <= most;
    ZP_CHECK(fits, ErrorCode::config,
             "world " + spec.world.id() + " has " + std::to_string(spec.world.size) +
                 " processes for " + std::to_string(available_cores()) + " cores",
             "more than " + std::to_string(most_ranks_per_core) +
                 " on a core mostly wait for each other",
             "add --oversubscribe if you mean it, or name hosts with --hostfile");
  }
}

/// --hostfile is for ranks that are processes.
void check_hostfile(const CaseFlags& flags, const Selection& selection) {
  if (flags.hostfile.empty() || inside_mpi_job()) return;
  const std::vector<CaseSpec> cases = trainings_of(selection);
  const bool used = std::any_of(cases.begin(), cases.end(),
                                [](const CaseSpec& spec) { return spec.world.has_processes(); });
  ZP_CHECK(used, ErrorCode::config, "--hostfile was given and no case runs under MPI",
           "it lists the hosts of rank processes", "add --world mpi:N, or leave the flag out");
}

/// A world nccl:N brings its transport.
void check_transport(const CaseFlags& flags) {
  if (flags.transport.empty() || has(flags.transport, "nccl")) return;
  for (const std::string& world : flags.worlds) {
    ZP_CHECK(world.rfind("nccl:", 0) != 0, ErrorCode::config,
             "--transport " + flags.transport.front() + " was given with --world " + world,
             "its ranks are processes, which reach each other's devices only through NCCL",
             "leave --transport out, or use threads" + world.substr(4));
  }
}

}  // namespace

bool asked_by_name(const CaseFlags& flags, const std::string& id) {
  const std::optional<CaseSpec> training = parse_case_id(id);
  return has(flags.patterns, id) ||
         (training && has(flags.implementations, std::string(name(training->implementation))));
}

ChosenCases choose_cases(const CaseFlags& flags) {
  require_applicable(flags);
  if (!flags.blind.empty()) {
    ZP_CHECK(flags.fault.empty(), ErrorCode::config, "--blind was given with --fault",
             "one fault is planted at a time", "leave one of the two out");
    require_faults();
  }
  ChosenCases chosen{options_from(flags), {}};
  check_transport(flags);
  if (!flags.cover.empty()) chosen.options.patterns = covering_rows(flags, chosen.options);
  chosen.selection = select_cases(chosen.options);
  if (!chosen.selection.unmatched.empty()) return chosen;
  if (!flags.blind.empty()) {
    chosen.options.fault = blind_fault(chosen.options, chosen.selection.ids(), flags.blind).id;
  }
  check_hostfile(flags, chosen.selection);
  check_ranks(flags, chosen.selection);
  check_obstacles(flags, chosen.options, chosen.selection);
  return chosen;
}

}  // namespace zeroproof::verification
