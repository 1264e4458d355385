// Bars: the elements that each rank holds, and the phases in which it writes them.

#include <algorithm>
#include <optional>

#include "verification/cli/program/contract_text.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/plan/predict/memory_model.hpp"
#include "verification/tools/trace/sections.hpp"

namespace zeroproof::verification {

std::optional<MemoryClass> class_of(BufferId id) {
  if (slot_of(id)) return MemoryClass::state;
  switch (id) {
    case BufferId::orthogonal:
      return MemoryClass::state;
    case BufferId::master:
      return MemoryClass::master;
    case BufferId::param_shard:
    case BufferId::column_shard:
      return MemoryClass::param_shard;
    case BufferId::param_full:
    case BufferId::param_columns:
      return MemoryClass::param_full;
    case BufferId::grad_sum:
    case BufferId::unscaled_grad:
    case BufferId::grad:
      return MemoryClass::grad_sum;
    default:
      return std::nullopt;
  }
}

namespace {

/// One character per parameter.
std::string bar(const FlatLayout& layout, const std::vector<FlatRange>& ranges, char mark) {
  std::string text;
  for (const std::int64_t element : elements_of(layout)) {
    const bool in = std::any_of(ranges.begin(), ranges.end(), [&](const FlatRange& range) {
      return element >= range.begin && element < range.end;
    });
    text += in ? mark : '.';
  }
  return text;
}

using Bars = std::vector<std::string>;  // [world_size]

std::string row(const std::string& phase, std::string_view what, const Bars& bars) {
  std::string line = fmt::format("{:<8} {:<12}", phase, what);
  for (const std::string& one : bars) line += "  " + fmt::format("{:<16}", one);
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

/// Ranges of a class among some buffers of every rank; nothing if no rank has it.
std::optional<Bars> bars_of(const StepTrace& trace, MemoryClass kind, char mark,
                            const std::vector<const std::vector<TracedBuffer>*>& buffers,
                            std::optional<Phase> phase) {
  Bars bars;
  bool any = false;
  for (const std::vector<TracedBuffer>* of_rank : buffers) {
    std::vector<FlatRange> ranges;
    for (const TracedBuffer& buffer : *of_rank) {
      if (class_of(buffer.id) != kind || (phase && buffer.phase != *phase)) continue;
      any = true;
      ranges.insert(ranges.end(), buffer.ranges.begin(), buffer.ranges.end());
    }
    bars.push_back(bar(trace.model.layout(), ranges, mark));
  }
  return any ? std::optional(bars) : std::nullopt;
}

std::string reduce_rows(const StepTrace& trace) {
  const FlatLayout& layout = trace.model.layout();
  const std::vector<FlatRange> everything = {{0, layout.padded_numel()}};
  Bars leaves;
  Bars nodes;
  for (int rank = 0; rank < trace.settings.world_size; ++rank) {
    const bool computes = !micro_batches_of(trace.shape(rank), rank).empty();
    leaves.push_back(bar(layout, computes ? everything : std::vector<FlatRange>{}, '*'));
    const bool whole =
        !trace.shape(rank).strided() && computes;  // the stack covers the whole model
    nodes.push_back(bar(layout, whole ? everything : trace.shards.shard(rank), '*'));
  }
  return row("reduce", "leaf", leaves) + row("reduce", name(MemoryClass::grad_nodes), nodes);
}

}  // namespace

std::string memory_map_text(const StepTrace& trace) {
  std::string out = "One column per parameter (";
  for (const TensorSlot& slot : trace.model.layout().tensors()) {
    out += (slot.begin == 0 ? "" : ", ") + slot.name + " " + std::to_string(slot.numel);
  }
  out += "); # held, * written in this phase, . neither";
  out = wrapped({out}, trace_columns, "") + "\n";
  Bars titles;
  for (int rank = 0; rank < trace.settings.world_size; ++rank)
    titles.push_back("rank " + std::to_string(rank));
  out += row("phase", "class", titles);
  std::vector<const std::vector<TracedBuffer>*> held;
  std::vector<const std::vector<TracedBuffer>*> written;
  for (const TracedRank& rank : trace.shown()) {
    held.push_back(&rank.steps.front().held);
    written.push_back(&rank.steps.front().buffers);
  }
  for (int c = 0; c < num_memory_classes; ++c) {
    const auto kind = static_cast<MemoryClass>(c);
    if (const auto bars = bars_of(trace, kind, '#', held, std::nullopt))
      out += row("always", name(kind), *bars);
  }
  for (const Phase phase : all_phases) {
    if (phase == Phase::reduce) out += reduce_rows(trace);
    for (int c = 0; c < num_memory_classes; ++c) {
      const auto kind = static_cast<MemoryClass>(c);
      const auto bars = bars_of(trace, kind, '*', written, phase);
      if (bars) out += row(std::string(name(phase)), name(kind), *bars);
    }
  }
  return out;
}

}  // namespace zeroproof::verification
