#include <algorithm>
#include <cstdlib>

#include "verification/cli/program/contract_text.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"
#include "verification/tools/plan/counts.hpp"
#include "verification/tools/plan/planned_matrices.hpp"
#include "verification/tools/plan/report.hpp"

namespace zeroproof::verification {
namespace {

std::string rounded(double bytes) { return grouped(static_cast<std::int64_t>(bytes + 0.5)); }

void add_inputs(std::string& out, const Plan& plan) {
  const PlanSettings& s = plan.settings;
  out += fmt::format(
      "zeroproof {}  numeric contract {}  plan: computed, {}\n", ZP_VERSION, contract_version,
      !plan.stages.empty() && plan.stages.front().measured ? "and measured" : "not measured");
  out += shown_name(plan.model) + "\n";
  out += fmt::format("{} parameters in {} tensors", grouped(plan.numel), grouped(plan.num_tensors));
  if (s.grid.tp > 1) out += fmt::format("; {} on a TP rank", grouped(plan.tp_numel));
  out += fmt::format("; {} with padding\n", grouped(plan.padded_numel));
  out += fmt::format("grid {} (data x context x tensor parallel): {} ranks, {} share the state{}\n",
                     s.grid.id(), grouped(s.grid.world_size()),
                     grouped(s.grid.data_ranks() / s.instances),
                     s.instances > 1 ? fmt::format(", {} instances", s.instances) : "");
  out += fmt::format("{}, {} parameters, {} leaves, M = {}, order {}, buckets of {} elements\n",
                     name(s.hyper.rule), name(s.param_dtype), name(s.grad_dtype),
                     grouped(s.micro_batches), name(s.order), grouped(s.bucket_numel));
  if (traits_of(s.hyper.rule).matrices) {
    out += fmt::format("owners of matrices: {}", name(s.matrix_owners));
    for (const MatrixSplitRule& split : s.matrix_splits)
      out += (&split == &s.matrix_splits.front() ? "; split: " : ", ") + split.name;
    out += '\n';
    if (s.grid.tp > 1)
      out += fmt::format("matrices that TP ranks split: {}\n", name(s.matrix_tensor_parallel));
  }
  if (!s.state_formats.plain()) {
    out += fmt::format("kept in: exp_avg {}, exp_avg_sq {}, master {} (R25)\n",
                       name(s.state_formats.exp_avg), name(s.state_formats.exp_avg_sq),
                       name(s.state_formats.master));
  }
  if (has_scales(s.param_dtype)) {
    out += fmt::format(
        "scales {}{}{}{} (R24)\n", name(s.scaling.recipe),
        s.scaling.recipe == ScaleRecipe::blockwise ? fmt::format(", {}", name(s.scaling.blocks))
                                                   : "",
        keeps_history(s.scaling) ? fmt::format(", history {}", s.scaling.history) : "",
        s.scaling.columnwise ? ", a copy by columns" : "");
  }
  if (s.windows != Windows::off) {
    out += fmt::format(
        "windows {}: ranks that share a state read each other's memory, as on one machine\n",
        name(s.windows));
  }
  if (s.offload.on()) {
    out += fmt::format("offload {}: {}, {}, chunks of {} elements{}{}; not in the peaks\n",
                       s.offload.fraction, name(s.offload.order), name(s.offload.place),
                       grouped(s.offload.chunk_numel), s.offload.overlap ? "" : " in turn",
                       s.offload.grads ? ", with gradients" : "");
  }
  if (s.space == Space::device && s.offload.on()) {
    out += "devices: two passes, phase by phase\n";
  } else if (s.space == Space::device)
    out += "devices: steps that the host enqueues, prepare alone over the host\n";
  out += fmt::format("units (stages 2 and 3): {}, by name, the largest of {} elements\n",
                     grouped(plan.num_units), grouped(plan.largest_unit));
  if (!plan.says_cuts && s.grid.tp > 1) {
    out +=
        "The file does not specify the split dimensions of tensor parallelism: every TP rank is "
        "planned with the whole model.\n";
  }
}

void add_summary(std::string& out, const Plan& plan, const Paint& paint) {
  out += "\n" + paint("1", "peak of one rank, bytes") + "\n";
  out += fmt::format("  {:<5}  {:>22}  {:>22}  {:>22}  {:>11}\n", "stage", "smallest rank",
                     "largest rank", "papers: 16 = 2 + 2 + 12", "largest");
  for (const StagePlan& stage : plan.stages) {
    out += fmt::format("  {:<5}  {:>22}  {:>22}  {:>23}  {:>11}\n", stage.stage,
                       grouped(stage.smallest.memory.total_peak),
                       grouped(stage.largest.memory.total_peak), rounded(stage.papers.total()),
                       short_bytes(static_cast<double>(stage.largest.memory.total_peak)));
  }
}

/// The part of a memory class that the papers count, "" for none.
std::string paper_cell(const PaperBytes& papers, MemoryClass kind) {
  switch (kind) {
    case MemoryClass::master:
      return rounded(papers.master) + "  4";
    case MemoryClass::state:
      return rounded(papers.moments) + "  8";
    case MemoryClass::param_full:
      return rounded(papers.params) + "  2";
    case MemoryClass::grad:
      return rounded(papers.grads) + "  2";
    default:
      return "-  -";
  }
}

void add_memory(std::string& out, const StagePlan& stage, const Paint& paint) {
  out += "\n" + paint("1", fmt::format("stage {}: peak of every class, bytes", stage.stage)) + "\n";
  out += fmt::format("  {:<16}  {:>20}  {:>20}  {:>24}\n", "class", "smallest rank", "largest rank",
                     "papers  per P");
  for (int c = 0; c < num_memory_classes; ++c) {
    const auto i = static_cast<std::size_t>(c);
    const auto kind = static_cast<MemoryClass>(c);
    out += fmt::format("  {:<16}  {:>20}  {:>20}  {:>24}\n", name(kind), grouped(stage.least[i]),
                       grouped(stage.most[i]), paper_cell(stage.papers, kind));
  }
  out += fmt::format("  {:<16}  {:>20}  {:>20}\n", "after the step",
                     grouped(stage.smallest.memory.total_now),
                     grouped(stage.largest.memory.total_now));
  out +=
      fmt::format("  {:<16}  {:>20}  {:>20}  {:>24}\n", "peak of the sum",
                  grouped(stage.smallest.memory.total_peak),
                  grouped(stage.largest.memory.total_peak), rounded(stage.papers.total()) + " 16");
}

/// Counts of the measured run, if there was one.
void add_measured(std::string& out, const StagePlan& stage, const Paint& paint) {
  if (!stage.measured) return;
  const MeasuredStage& m = *stage.measured;
  out += "\n" +
         paint("1", fmt::format("stage {}: measured in a run of two steps, bytes", stage.stage)) +
         "\n";
  out += fmt::format("  {:<16}  {:>20}  {:>20}  {:>24}\n", "class", "smallest rank", "largest rank",
                     "from the plan");
  const auto row = [&](std::string_view what, std::int64_t least, std::int64_t most,
                       std::int64_t apart) {
    out += fmt::format("  {:<16}  {:>20}  {:>20}  {:>24}\n", what, least < 0 ? "" : grouped(least),
                       grouped(most), grouped(apart));
  };
  for (std::size_t c = 0; c < m.most.size(); ++c) {
    row(name(static_cast<MemoryClass>(c)), m.least[c], m.most[c],
        std::abs(m.least[c] - stage.least[c]) + std::abs(m.most[c] - stage.most[c]));
  }
  const MemoryUse& smallest = stage.smallest.memory;
  const MemoryUse& largest = stage.largest.memory;
  row("after the step", m.smallest.total_now, m.largest.total_now,
      std::abs(m.smallest.total_now - smallest.total_now) +
          std::abs(m.largest.total_now - largest.total_now));
  row("peak of the sum", m.smallest.total_peak, m.largest.total_peak,
      std::abs(m.smallest.total_peak - smallest.total_peak) +
          std::abs(m.largest.total_peak - largest.total_peak));
  row("sent in a step", -1, m.sent_bytes,
      std::abs(m.sent_bytes - stage.largest.traffic.sent_bytes()));
}

/// Place of the offloaded part, and the transfers of an applied step.
void add_offload(std::string& out, const PlanSettings& settings, const StagePlan& stage,
                 const Paint& paint) {
  if (!settings.offload.on()) return;
  out += "\n" + paint("1", fmt::format("stage {}: offloaded, bytes", stage.stage)) + "\n";
  out += fmt::format("  {:<34}  {:>20}  {:>20}\n", "", "smallest rank", "largest rank");
  const auto row = [&](std::string_view what, std::int64_t least, std::int64_t most) {
    out += fmt::format("  {:<34}  {:>20}  {:>20}\n", what, grouped(least), grouped(most));
  };
  const RankPlan &least = stage.smallest, &most = stage.largest;
  row("elements, with padding", least.offloaded_numel, most.offloaded_numel);
  row("memory of the host", least.memory.offloaded_host, most.memory.offloaded_host);
  row("file", least.memory.offloaded_file, most.memory.offloaded_file);
  row("a step: gradients down", least.offload.grads_down, most.offload.grads_down);
  row("a step: parameters up", least.offload.params_up, most.offload.params_up);
  row("a step: read from the file", least.offload.file_read, most.offload.file_read);
  row("a step: written to the file", least.offload.file_written, most.offload.file_written);
  if (!stage.measured) return;
  row("measured: memory of the host", stage.measured->smallest.offloaded_host,
      stage.measured->largest.offloaded_host);
  row("measured: file", stage.measured->smallest.offloaded_file,
      stage.measured->largest.offloaded_file);
}

/// Shares of the ranks in the matrices of the rule muon.
void add_matrices(std::string& out, const StagePlan& stage, const Paint& paint) {
  if (!stage.matrices) return;
  const MatrixBalance& m = *stage.matrices;
  const auto millions = [](double products) { return fmt::format("{:.1f}", products / 1e6); };
  const double ratio = m.mean_products > 0 ? m.most_products / m.mean_products : 1;
  out += "\n" +
         paint("1", fmt::format("stage {}: {} matrices of {} elements (R28)", stage.stage,
                                grouped(m.matrices), grouped(m.numel))) +
         "\n";
  out += fmt::format("  {:<34}  {:>16}  {:>16}  {:>12}\n", "of one rank", "least", "most",
                     "most / mean");
  out += fmt::format("  {:<34}  {:>16}  {:>16}\n", "matrices orthogonalised",
                     grouped(m.least_computed), grouped(m.most_computed));
  out += fmt::format("  {:<34}  {:>16}  {:>16}  {:>12.2f}\n", "products of Newton-Schulz, 10^6",
                     millions(m.least_products), millions(m.most_products), ratio);
  out += fmt::format("  {:<34}  {:>16}  {:>16}\n", "bytes of matrices brought together",
                     grouped(m.least_whole_bytes), grouped(m.most_whole_bytes));
  out += fmt::format("  {:<34}  {:>16}  {:>16}\n", "bytes of Newton-Schulz",
                     grouped(m.least_work_bytes), grouped(m.most_work_bytes));
  if (m.most_numel_over_mean == 0) return;
  out += fmt::format("  {:<34}  {:>16}  {:>16}  {:>12.2f}\n", "elements of owned matrices", "", "",
                     m.most_numel_over_mean);
  if (m.most_numel_over_mean > megatron_numel_cap) {
    out += fmt::format(
        "  Megatron-LM's layer-wise optimizer gives a rank {} times the mean at most.\n",
        megatron_numel_cap);
  }
}

void add_traffic(std::string& out, const StagePlan& stage, const Paint& paint) {
  out += "\n" +
         paint("1", fmt::format("stage {}: one step of data rank {}", stage.stage,
                                stage.largest.data_rank)) +
         "\n";
  out += fmt::format("  {:<8} {:<10} {:<11} {:<18} {:>8} {:>11} {:>22}\n", "phase", "over",
                     "collective", "of", "calls", "messages", "bytes sent");
  for (const TrafficLine& line : stage.largest.traffic.lines) {
    out += fmt::format("  {:<8} {:<10} {:<11} {:<18} {:>8} {:>11} {:>22}\n", name(line.phase),
                       name(line.group), name(line.collective), line.what, grouped(line.calls),
                       grouped(line.messages), grouped(line.sent_bytes));
  }
  out += fmt::format("  {:<8} {:<10} {:<11} {:<18} {:>8} {:>11} {:>22}\n", "sum", "", "", "", "",
                     grouped(stage.largest.traffic.messages()),
                     grouped(stage.largest.traffic.sent_bytes()));
}

void add_times(std::string& out, const Plan& plan, const Paint& paint) {
  const MachineModel& m = plan.settings.machine;
  out += "\n" + paint("1", "cost model (a model, not a measurement; nothing overlaps)") + "\n";
  out += fmt::format("  alpha {} us per message, beta {} GB/s sent, memory {} GB/s\n", m.alpha_us,
                     m.beta_gbs, m.memory_gbs);
  out +=
      "  collective: messages * alpha + bytes / beta; norm: 4 bytes per element / memory, and "
      "words\n";
  out +=
      "  units longer than buckets count as the messages of so many buckets, as in the other "
      "stages\n";
  out += "  update: (4 + 8 * (1 + state buffers) + parameter) bytes per element / memory\n";
  if (plan.settings.windows != Windows::off)
    out += "  windows: bytes read from other ranks / memory\n";
  out += fmt::format("  {:<5}  {:>13} {:>13} {:>13} {:>13} {:>13} {:>13}   us\n", "stage", "reduce",
                     "norm", "update", "gather", "other", "sum");
  for (const StagePlan& stage : plan.stages) {
    const StepTime& t = stage.time;
    out += fmt::format("  {:<5}  {:>13.1f} {:>13.1f} {:>13.1f} {:>13.1f} {:>13.1f} {:>13.1f}\n",
                       stage.stage, t.reduce_us, t.norm_us, t.update_us, t.gather_us, t.other_us,
                       t.total_us());
  }
}

/// If the start of messages takes more than half of the time, sums of stages reflect the number of
/// messages, not their length.
void add_latency_warning(std::string& out, const Plan& plan, const Paint& paint) {
  const PlanSettings& s = plan.settings;
  std::string stages;
  for (const StagePlan& stage : plan.stages) {
    if (2 * stage.time.latency_us <= stage.time.total_us()) continue;
    stages += fmt::format("{}{} ({:.0f} %)", stages.empty() ? "" : ", ", stage.stage,
                          100 * stage.time.latency_us / stage.time.total_us());
  }
  if (stages.empty()) return;
  // Bytes whose transfer takes as long as the start of a message.
  const double even = s.machine.alpha_us * s.machine.beta_gbs * 1e3;
  const double wanted = even * static_cast<double>(s.grid.data_ranks() / s.instances) / 4;
  const std::int64_t bucket =
      (static_cast<std::int64_t>(wanted) / layout_alignment + 1) * layout_alignment;
  const bool helps = bucket > s.bucket_numel && bucket <= plan.padded_numel;
  const std::string text = fmt::format(
                               "latency dominates stages {}; below alpha * beta = {} a message "
                               "costs more to start than to send, "
                               "and these sums compare numbers of messages; ",
                               stages, short_bytes(even)) +
                           (helps ? fmt::format("--bucket {} makes them that long", bucket)
                                  : "the model is too small for messages that long");
  out += paint("33", "  warning") + "\n" + wrapped({text}, plan_columns, "  ");
}

void add_counts(std::string& out, const std::string& title, const std::vector<Count>& counts,
                const Paint& paint) {
  out += "\n" + paint("1", title) + "\n";
  for (const Count& count : counts) {
    const std::string verdict = count.right ? paint("32", "right") : paint("31", "wrong");
    out += fmt::format("  {:<34}  {:<20}  {:>22}  {}\n", count.what, count.formula,
                       rounded(count.bytes), verdict);
    out += wrapped({"bytes: " + count.counts + "."}, plan_columns, "      ");
    out += wrapped({count.why}, plan_columns, "      ");
  }
}

}  // namespace

std::string shown_name(const std::string& text) {
  std::string shown;
  for (const char c : text) shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return shown;
}

std::string short_bytes(double bytes) {
  static constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (; bytes >= 999.95 && unit + 1 < std::size(units); ++unit) bytes /= 1000;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.4g} {}", bytes, units[unit]);
}

std::string plan_text(const Plan& plan, const PlanSections& sections, bool colour) {
  const Paint paint{colour};
  std::string out;
  add_inputs(out, plan);
  add_summary(out, plan, paint);
  if (sections.contract) {
    for (const StagePlan& stage : plan.stages) {
      add_memory(out, stage, paint);
      add_measured(out, stage, paint);
      add_offload(out, plan.settings, stage, paint);
      add_matrices(out, stage, paint);
      add_traffic(out, stage, paint);
    }
    add_times(out, plan, paint);
    add_latency_warning(out, plan, paint);
  }
  const std::string terms = "P parameters of a TP rank, d ranks that share the state";
  if (sections.zero_paper)
    add_counts(out, "the ZeRO paper: " + terms, zero_paper_counts(plan), paint);
  if (sections.deepspeed)
    add_counts(out, "DeepSpeed's estimators: " + terms, deepspeed_counts(plan), paint);
  if (sections.megatron)
    add_counts(out, "Megatron-LM's table: " + terms, megatron_counts(plan), paint);
  if (sections.claims) {
    add_counts(out, "in circulation (papers/errata.md): " + terms, circulating_counts(plan), paint);
  }
  return out;
}

}  // namespace zeroproof::verification
