#include "verification/tools/train/job_text.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/digest.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/report/format.hpp"
#include "verification/report/loss_chart.hpp"
#include "verification/report/report_style.hpp"

namespace zeroproof::verification {
namespace {

TrainingTrace trace_of(const Experiment& experiment, const std::vector<StepRecord>& steps) {
  TrainingTrace trace;
  trace.workload = experiment.workload();
  trace.recipe = experiment.recipe();
  trace.dtype = experiment.param_dtype();
  trace.parameters = experiment.layout().numel();
  trace.micro_batches = experiment.config().micro_batches;
  trace.context = experiment.context();
  trace.first_step = steps.front().step;
  for (const StepRecord& record : steps)
    trace.steps.push_back(
        {record.loss, record.grad_norm, 1, record.log2_loss_scale, record.skipped, {}});
  return trace;
}

/// Rows of at least a thousandth of the whole.
std::string time_table(const JobResult& result) {
  std::vector<std::pair<std::string, double>> rows = {{"gradients", result.gradients_s}};
  double in_phases = 0;
  for (const double seconds : result.phases_s) in_phases += seconds;
  if (in_phases > 0) {
    for (const Phase phase : all_phases)
      rows.emplace_back(std::string(name(phase)), result.phases_s[static_cast<std::size_t>(phase)]);
  } else {
    rows.emplace_back("optimizer", result.optimizer_s);
  }
  rows.emplace_back("digests", result.sums_s);
  rows.emplace_back("checkpoints", result.saving_s);
  double total = 0;
  for (const auto& [what, seconds] : rows) total += seconds;
  if (total <= 0) return "";
  std::string text = "where the time went   seconds   share\n";
  for (const auto& [what, seconds] : rows) {
    if (seconds * 1000 < total) continue;
    const auto width = static_cast<std::size_t>(std::lround(40 * seconds / total));
    text += fmt::format("{:<19} {:>9.2f} {:>6.1f} %{}\n", what, seconds, 100 * seconds / total,
                        width > 0 ? "  " + std::string(width, '#') : "");
  }
  return text;
}

std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "unknown";
}

}  // namespace

std::string described(const Experiment& experiment, const CaseSpec& spec) {
  return fmt::format("{} {} {}: {} parameters, {} micro-batches a step\n{}, stage {}, {}\n",
                     experiment.workload(), shown_recipe(experiment.recipe()),
                     name(experiment.param_dtype()), grouped(experiment.layout().numel()),
                     experiment.config().micro_batches, name(spec.implementation), spec.stage,
                     spec.world.id());
}

std::string state_digest(const StepRecord& record) {
  Hasher hasher;
  for (const auto& [buffer, sums] : record.sums) {
    if (buffer == name(BufferId::grad_sum)) continue;
    hasher.add(buffer);
    for (const std::uint64_t sum : sums) hasher.add(sum);
  }
  return record.sums.empty() ? "" : to_hex(hasher.digest());
}

std::string step_line(const StepRecord& record) {
  std::string line = fmt::format("step {}  loss {}", record.step, number(record.loss, 4));
  if (record.skipped) line += "  skipped: a gradient was not finite";
  if (!record.skipped) line += "  norm " + number(record.grad_norm, 4);
  if (record.log2_loss_scale != 0) line += fmt::format("  scale 2^{}", record.log2_loss_scale);
  return line;
}

std::string job_text(const Experiment& experiment, const JobResult& result) {
  std::string text;
  if (result.steps.empty())
    return fmt::format("nothing was left to do: step {} of {} is made\n", result.last,
                       experiment.config().steps);
  const std::string chart = loss_charts({trace_of(experiment, result.steps)});
  if (!chart.empty()) text += chart + "\n";
  text += time_table(result) + "\n";
  const auto skipped =
      std::ranges::count_if(result.steps, [](const StepRecord& step) { return step.skipped; });
  text += fmt::format("steps {} to {} of {}{}, {} on rank 0 at most\n", result.from + 1,
                      result.last, experiment.config().steps,
                      skipped > 0 ? fmt::format(", {} skipped", skipped) : "",
                      result.memory.total_peak > 0 ? grouped(result.memory.total_peak) + " bytes"
                                                   : "unknown memory");
  text += "last: " + step_line(result.steps.back()) + "\n";
  text += "state " + state_digest(result.state) + ", on any ranks\n";
  if (result.stopped) text += "stopped before the end; --resume continues\n";
  return text;
}

}  // namespace zeroproof::verification
