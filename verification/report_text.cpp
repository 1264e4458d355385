#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "verification/contract_version.hpp"
#include "verification/report_checks.hpp"
#include "verification/report_style.hpp"
#include "verification/run_report.hpp"

namespace zeroproof::verification {
namespace {

std::string bar(double value, double low, double high, int width) {
  const double fraction = high > low ? (value - low) / (high - low) : 1.0;
  const int filled = std::clamp(static_cast<int>(std::lround(fraction * width)), 0, width);
  return std::string(static_cast<std::size_t>(filled), '#') +
         std::string(static_cast<std::size_t>(width - filled), '.');
}

void add_training(std::string& out, const TrainingTrace& trace) {
  out += fmt::format("\n{} {} {}: {} parameters, {} micro-batches{} per step\n", trace.workload, trace.recipe,
                     name(trace.dtype), grouped(trace.parameters), trace.micro_batches,
                     trace.context > 0 ? fmt::format(" of {} bytes", trace.context) : "");
  out += "  step    loss  (nats per byte)                 grad norm    clip  loss scale\n";
  double low = 1e300;
  double high = -1e300;
  for (const TrainingStep& step : trace.steps) {
    low = std::min(low, step.loss);
    high = std::max(high, step.loss);
  }
  std::int64_t number = 0;
  for (const TrainingStep& step : trace.steps) {
    ++number;
    const std::string scale = trace.dtype == DType::fp16 ? "2^" + std::to_string(step.log2_loss_scale) : "-";
    out += std::isnan(step.loss)  // a recording need not have losses
               ? fmt::format("  {:>4}  {:>6}  {:30}", number, "-", "")
               : fmt::format("  {:>4}  {:>6.4f}  {}", number, step.loss,
                             bar(step.loss, low - 0.05 * (high - low), high, 30));
    out += step.skipped ? fmt::format("  {:>9}  {:>6}  {:>9}", "overflow", "skip", scale)
                        : fmt::format("  {:>9.4f}  {:>6.4f}  {:>9}", step.grad_norm,
                                      static_cast<double>(step.clip_coef), scale);
    out += "\n";
  }
}

void add_phases(std::string& out, const std::vector<CaseResult>& cases, const Paint& paint) {
  std::map<std::pair<Phase, BufferId>, std::array<PhaseTally, 2>> rows;
  for (const CaseResult& result : cases) {
    if (result.status == Status::skipped) continue;
    for (const PhaseTally& tally : result.tallies) {
      PhaseTally& sum = rows[{tally.phase, tally.buffer}][tally.against == "reference" ? 0 : 1];
      sum.compared += tally.compared;
      sum.differing += tally.differing;
    }
  }
  if (rows.empty()) return;
  out += "\nphase    buffer          class        production = reference      reference = undistributed\n";
  out += "                                     compared     differing        compared     differing\n";
  for (const auto& [key, sums] : rows) {
    const auto& [phase, buffer] = key;
    const bool good = sums[0].differing == 0 && sums[1].differing == 0;
    out += fmt::format("{:<8} {:<15} {:<8} {:>15} {:>12} {:>16} {:>12}  {}\n", name(phase), name(buffer),
                       exactness_class(buffer), grouped(sums[0].compared), grouped(sums[0].differing),
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

void add_cases(std::string& out, const std::vector<CaseResult>& cases, const Paint& paint) {
  out += "\ntwin        stage  world       dtype  mode      status      ms/step ref  prod   GB/s ref  prod\n";
  for (const CaseResult& result : cases) {
    const StepTiming& t = result.timing;
    const std::string mode = result.spec.mode == Mode::lockstep ? "lockstep" : "free";
    out += fmt::format("{:<10}  {:<5}  {:<10}  {:<5}  {:<8}  {}  {:>11} {:>5}  {:>9} {:>5}\n",
                       name(result.spec.twin), result.spec.stage, result.spec.world.id(),
                       name(result.spec.dtype), mode,
                       paint.status(result.status, fmt::format("{:<10}", name(result.status))),
                       milliseconds(t.reference_seconds, t.steps), milliseconds(t.candidate_seconds, t.steps),
                       bandwidth(t.reference_seconds, t.reference_bytes, t.steps),
                       bandwidth(t.candidate_seconds, t.candidate_bytes, t.steps));
  }
  out +=
      "times: phases unscale to cast on rank 0; ranks share this machine; GB/s counts the bytes each needs\n";
}

/// Many cases: one row for each recipe and twin, with what became of them.
void add_case_groups(std::string& out, const std::vector<CaseResult>& cases, const Paint& paint) {
  std::map<std::tuple<std::string, std::string, Twin>, std::array<int, num_statuses>> groups;
  for (const CaseResult& result : cases) {
    const CaseSpec& spec = result.spec;
    ++groups[{spec.workload, spec.recipe, spec.twin}][static_cast<std::size_t>(result.status)];
  }
  out += "\nworkload       recipe            twin        cases by status\n";
  for (const auto& [key, counts] : groups) {
    const auto& [workload, recipe, twin] = key;
    out += fmt::format("{:<13}  {:<16}  {:<10} ", workload, recipe, name(twin));
    for (int i = 0; i < num_statuses; ++i) {
      const int count = counts[static_cast<std::size_t>(i)];
      const auto status = static_cast<Status>(i);
      if (count > 0) out += " " + paint.status(status, fmt::format("{} {}", count, name(status)));
    }
    out += "\n";
  }
}

void add_failure(std::string& out, const CaseResult& result, const Paint& paint) {
  std::string title(name(result.status));
  std::transform(title.begin(), title.end(), title.begin(),
                 [](char c) { return static_cast<char>(std::toupper(c)); });
  out += "\n" + paint.status(result.status, title) + " " + result.spec.id() + "\n";
  if (result.divergence) {
    const Divergence& d = *result.divergence;
    out += place_lines(d);
    std::string equal;
    for (const PhaseTally& tally : result.tallies) {
      if (tally.phase < d.phase && tally.differing == 0 && tally.against == "reference") {
        equal += " " + std::string(name(tally.buffer));
      }
    }
    if (!equal.empty()) out += "  equal     in all earlier phases:" + equal + "\n";
    const std::size_t then = result.reason.find(" (then: ");
    if (then != std::string::npos) out += "  then      " + result.reason.substr(then + 8) + "\n";
  } else {
    out += "  reason    " + result.reason + "\n";
  }
  out += "  replay    " + result.replay + "\n";
}

void add_hashes(std::string& out, const std::vector<CaseResult>& cases, const Paint& paint) {
  std::map<std::tuple<std::string, std::string, DType>, std::map<Digest, int>> hashes;
  for (const CaseResult& result : cases) {
    if (result.status == Status::skipped) continue;
    const CaseSpec& spec = result.spec;
    if (result.candidate_hash) ++hashes[{spec.workload, spec.recipe, spec.dtype}][*result.candidate_hash];
  }
  if (!hashes.empty()) out += "\n";
  for (const auto& [key, counts] : hashes) {
    const bool one = counts.size() == 1;
    for (const auto& [digest, count] : counts) {
      const auto& [workload, recipe, dtype] = key;
      out += fmt::format("trajectory {} {:<16} {}  {}  {}{}\n", workload, recipe, name(dtype), to_hex(digest),
                         count == 1 ? "1 case" : std::to_string(count) + " cases",
                         !one         ? paint("31", ", NOT ALL EQUAL")
                         : count == 1 ? ""
                                      : ", all equal");
    }
  }
}

}  // namespace

std::string to_text(const RunReport& report, bool colour) {
  const Paint paint{colour};
  std::string out = fmt::format("zeroproof {}  numeric contract {}\n", ZP_VERSION, contract_version);
  if (report.input.bytes > 0) {
    const bool text = report.input.kind != "gradients";
    out += fmt::format("{}: {} ({}{} bytes)\n", text ? "text" : "gradients", report.input.path,
                       text ? report.input.kind + ", " : "", grouped(report.input.bytes));
  }
  constexpr std::size_t shown_traces = 4;
  constexpr std::size_t shown_cases = 48;
  for (std::size_t i = 0; i < std::min(report.traces.size(), shown_traces); ++i)
    add_training(out, report.traces[i]);
  if (report.traces.size() > shown_traces) {
    out += fmt::format("\n... and {} more trainings; the JSON report has them all\n",
                       report.traces.size() - shown_traces);
  }
  add_phases(out, report.cases, paint);
  if (report.cases.size() > shown_cases) {
    add_case_groups(out, report.cases, paint);
  } else if (!report.cases.empty()) {
    add_cases(out, report.cases, paint);
  }
  int shown = 0;
  for (const CaseResult& result : report.cases) {
    if (result.status == Status::pass) continue;
    if (++shown <= 8) add_failure(out, result, paint);
  }
  if (shown > 8)
    out += fmt::format("\n... and {} more that did not pass; the JSON report has them all\n", shown - 8);
  add_hashes(out, report.cases, paint);
  add_checks(out, report.checks, colour);
  std::string summary;
  for (int i = 0; i < num_statuses; ++i) {
    const auto status = static_cast<Status>(i);
    const std::int64_t count = report.count(status);
    if (count == 0 && status != Status::pass && status != Status::fail) continue;
    const std::string text = grouped(count) + " " + std::string(name(status));
    summary += (summary.empty() ? "" : ", ") + (count > 0 ? paint.status(status, text) : text);
  }
  out += fmt::format("\n{}  ({:.1f} s)\n", summary, report.seconds);
  return out;
}

}  // namespace zeroproof::verification
