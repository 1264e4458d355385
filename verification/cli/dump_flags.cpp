#include "verification/cli/dump_flags.hpp"

#include <charconv>
#include <set>

#include "common/base/error.hpp"
#include "common/io/files/replacing_file.hpp"
#include "verification/report/report_files.hpp"
#include "verification/tools/train/dump/dump.hpp"

namespace zeroproof::verification {
namespace {

std::int64_t step_of(const std::string& text, std::int64_t steps) {
  std::int64_t step = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  const bool number = error == std::errc{} && rest == text.data() + text.size();
  ZP_CHECK(number && step >= 1 && step <= steps, ErrorCode::config,
           "--dump-steps has '" + text + "'", "the run has the steps 1 to " + std::to_string(steps),
           "name some of these, with commas between");
  return step;
}

/// The settings that determine a trajectory.
std::string trajectory_of(const CaseSpec& spec) {
  const bool binned = spec.place.grad_sum == GradSum::binned;
  return spec.workload + " " + spec.recipe + " " + std::string(name(spec.dtype)) +
         (binned ? " binned" : "");
}

}  // namespace

void add_dump_flags(const Command& command, DumpFlags& flags) {
  command.option(
      "--dump", flags.file,
      "safetensors file for master, state, parameters and scalars of the undistributed "
      "optimizer, with which all cases are compared; needs one workload, recipe and dtype");
  command.list("--dump-steps", flags.steps, "steps to dump, as in 1,10,60 (default: the last one)");
  command.flag("--dump-gradients", flags.gradients,
               "dump the gradient sum and the clipped gradient of every parameter too");
}

std::vector<std::int64_t> dumped_steps(const std::vector<std::string>& texts, std::int64_t steps) {
  std::set<std::int64_t> chosen;
  for (const std::string& text : texts) chosen.insert(step_of(text, steps));
  if (chosen.empty()) chosen.insert(steps);
  return {chosen.begin(), chosen.end()};
}

CaseSpec only_trajectory(const Selection& selection, const std::string& flag) {
  std::optional<CaseSpec> only;
  for (const auto& [suite, ids] : selection.parts) {
    for (const std::string& id : ids) {
      const std::optional<CaseSpec> spec = parse_case_id(id);
      ZP_CHECK(spec.has_value(), ErrorCode::config, flag + " does not apply to " + id,
               "only training cases have a trajectory", "leave the flag out, or the pattern");
      if (!only) only = spec;
      ZP_CHECK(trajectory_of(*only) == trajectory_of(*spec), ErrorCode::config,
               flag + " was given with " + trajectory_of(*only) + " and " + trajectory_of(*spec),
               "it is about the numbers of one run",
               "choose one with --recipe, --dtype or --sum, or by a case id");
    }
  }
  return only.value();
}

void check_dump(const DumpFlags& flags, const VerifyOptions& options, const Selection& selection) {
  ZP_CHECK(!flags.file.empty() || (flags.steps.empty() && !flags.gradients), ErrorCode::config,
           (flags.gradients ? "--dump-gradients" : "--dump-steps") +
               std::string(" was given without --dump"),
           "it selects the content of that file", "add --dump FILE, or leave it out");
  if (flags.file.empty()) return;
  const RunConfig config = config_of(options, only_trajectory(selection, "--dump"));
  dumped_steps(flags.steps, config.steps);
  check_not_input(flags.file, {options.gradients, options.config_file, config.text});
  const ReplacingFile can_be_written(flags.file);  // and is gone again
}

std::string make_dump(const DumpFlags& flags, const VerifyOptions& options,
                      const Selection& selection) {
  const CaseSpec spec = only_trajectory(selection, "--dump");
  const Experiment experiment = experiment_of(options, spec);
  const DumpPlan plan(experiment,
                      flags.gradients ? DumpPlan::Content::gradients : DumpPlan::Content::values);
  const std::vector<std::int64_t> steps = dumped_steps(flags.steps, experiment.config().steps);
  const std::vector<DumpTensor> tensors = plan.tensors(steps);
  write_dump(experiment, plan, tensors, flags.file, spec.id());
  std::string listed;
  for (const std::int64_t step : steps)
    listed += (listed.empty() ? "" : ", ") + std::to_string(step);
  return "dump: " + flags.file + " (" + trajectory_of(spec) + ", step " + listed + ", " +
         std::to_string(tensors.size()) + " tensors)";
}

}  // namespace zeroproof::verification
