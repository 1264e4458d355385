#include "verification/training/training_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "verification/cases/recipes.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"
#include "verification/report/skip_lines.hpp"
#include "verification/training/case_groups.hpp"
#include "verification/training/training_cases.hpp"

namespace zeroproof::verification {
namespace {

/// The axis begins at 0.
std::string bar(double value, double high, int width) {
  const int filled =
      high > 0 ? std::clamp(static_cast<int>(std::lround(value / high * width)), 0, width) : 0;
  return std::string(filled, '#') + std::string(width - filled, '.');
}

void add_training(std::string& out, const TrainingTrace& trace) {
  out += fmt::format("\n{} {} {}: {} parameters, {} micro-batches{} per step\n", trace.workload,
                     shown_recipe(trace.recipe), name(trace.dtype), grouped(trace.parameters),
                     trace.micro_batches,
                     trace.context > 0 ? fmt::format(" of {} bytes", trace.context) : "");
  out += "  step    loss  (nats per byte)                 grad norm    clip  loss scale\n";
  double high = 0;
  for (const TrainingStep& step : trace.steps) high = std::max(high, step.loss);
  std::int64_t number = 0;
  for (const TrainingStep& step : trace.steps) {
    ++number;
    const std::string scale =
        trace.dtype == DType::fp16 ? "2^" + std::to_string(step.log2_loss_scale) : "-";
    out += std::isnan(step.loss)  // a recording need not have losses
               ? fmt::format("  {:>4}  {:>6}  {:30}", number, "-", "")
               : fmt::format("  {:>4}  {:>6.4f}  {}", number, step.loss, bar(step.loss, high, 30));
    out += step.skipped ? fmt::format("  {:>9}  {:>6}  {:>9}", "overflow", "skip", scale)
                        : fmt::format("  {:>9.4f}  {:>6.4f}  {:>9}", step.grad_norm,
                                      static_cast<double>(step.clip_coef), scale);
    out += "\n";
    for (const ClipGroupStep& group : step.clip_groups) {
      if (step.skipped) break;
      out += fmt::format("  {:>44}  {:>9.4f}  {:>6.4f}\n", "clip group " + group.name,
                         group.grad_norm, static_cast<double>(group.clip_coef));
    }
  }
}

void add_phase_rows(std::string& out, const TrainingCases& cases, const Paint& paint) {
  std::map<std::pair<Phase, BufferId>, std::array<PhaseTally, 2>> rows;
  for (const auto& [spec, result] : cases) {
    for (const PhaseTally& tally : result->training->tallies) {
      PhaseTally& sum = rows[{tally.phase, tally.buffer}][tally.against == "reference" ? 0 : 1];
      sum.compared += tally.compared;
      sum.differing += tally.differing;
    }
  }
  if (rows.empty()) return;
  out +=
      "\nphase    buffer          class        production = reference      reference = "
      "undistributed\n";
  out +=
      "                                     compared     differing        compared     differing\n";
  for (const auto& [key, sums] : rows) {
    const auto& [phase, buffer] = key;
    const bool good = sums[0].differing == 0 && sums[1].differing == 0;
    out += fmt::format("{:<8} {:<15} {:<8} {:>15} {:>12} {:>16} {:>12}  {}\n", name(phase),
                       name(buffer), exactness_class(buffer), grouped(sums[0].compared),
                       grouped(sums[0].differing),
                       sums[1].compared > 0 ? grouped(sums[1].compared) : "-",
                       sums[1].compared > 0 ? grouped(sums[1].differing) : "-",
                       paint(good ? "32" : "31", good ? "equal" : "DIFFER"));
  }
}

std::string milliseconds(double seconds, std::int64_t steps) {
  return steps > 0 ? fmt::format("{:.2f}", 1e3 * seconds / static_cast<double>(steps)) : "-";
}

std::string bandwidth(double seconds, std::int64_t bytes, std::int64_t steps) {
  if (steps == 0 || seconds <= 0) return "-";
  return fmt::format("{:.1f}", static_cast<double>(bytes * steps) / seconds * 1e-9);
}

void add_cases(std::string& out, const TrainingCases& cases, const Paint& paint) {
  out +=
      "\nimplementation        stage  world       dtype  mode      status      ms/step ref  prod   "
      "GB/s ref  prod\n";
  for (const auto& [spec, result] : cases) {
    const StepTiming& t = result->training->timing;
    const std::string_view mode = name(spec.mode);
    out += fmt::format(
        "{:<10}  {:<5}  {:<10}  {:<5}  {:<8}  {}  {:>11} {:>5}  {:>9} {:>5}\n",
        name(spec.implementation), spec.stage, spec.world.id(), name(spec.dtype), mode,
        paint.status(result->status, fmt::format("{:<10}", name(result->status))),
        milliseconds(t.reference_seconds, t.steps), milliseconds(t.candidate_seconds, t.steps),
        bandwidth(t.reference_seconds, t.reference_bytes, t.steps),
        bandwidth(t.candidate_seconds, t.candidate_bytes, t.steps));
  }
  out +=
      "times: phases unscale to cast on rank 0; ranks share this machine; GB/s counts the bytes "
      "each needs\n";
}

void add_device_calls(std::string& out, const TrainingCases& cases) {
  std::string rows;
  for (const auto& [spec, result] : cases) {
    const auto& calls = result->training->device_calls;
    if (!calls) continue;
    rows +=
        fmt::format("{:<5}  {:<10}  {:<5}  {:>8}  {:>6}  {:>6}  {:>11}  {:>5}  {}\n", spec.stage,
                    spec.world.id(), name(spec.dtype), calls->launches, calls->graph_launches,
                    calls->copies, calls->allocations, calls->waits, result->id);
  }
  if (rows.empty()) return;
  out +=
      "\nstage  world       dtype  launches  graphs  copies  allocations  waits  case\n" + rows +
      "device operations that a rank's host requests in one step, from the third on; maximum over "
      "ranks\n";
}

}  // namespace

std::string training_table(const RunReport& report, bool colour) {
  const Paint paint{colour};
  const TrainingCases cases = training_cases(report);
  if (cases.empty()) return {};
  std::string out;
  for (const TrainingTrace& trace : report.traces) {
    add_training(out, trace);
    std::vector<const Result*> of_trace;
    for (const auto& [spec, result] : cases) {
      if (traces_case(trace, spec)) of_trace.push_back(result);
    }
    out += skip_lines(of_trace, trace.steps.size());
  }
  add_phase_rows(out, cases, paint);
  add_cases(out, cases, paint);
  add_device_calls(out, cases);
  return out;
}

}  // namespace zeroproof::verification
