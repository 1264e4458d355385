// Events of production's ranks: messages, visits of units, memory.

#include "verification/tools/trace/event_order.hpp"
#include "verification/tools/trace/json_sections.hpp"
#include "verification/tools/trace/sections.hpp"

namespace zeroproof::verification {
namespace {

using Event = TracedVisit::Event;

/// Contents of the bytes of a collective.
std::string content_of(const StepTrace& trace, const TracedSpan& span, bool of_unit,
                       bool after_exchange) {
  switch (span.phase) {
    case Phase::prepare:
      return "digest of the step scalars";
    case Phase::reduce:
      if (span.name == "all_to_all") return trace.shape(0).strided() ? "leaves" : "nodes";
      if (of_unit) return "parameters";
      return after_exchange ? "sums" : "leaves";  // whole ones: of an optimizer with a fault
    case Phase::unscale:
      return "found_inf";
    case Phase::norm:
      return "norm_limbs";
    case Phase::update:
      if (traits_of(trace.settings.rule).matrices)
        return after_exchange ? "orthogonal" : "directions";
      return "trust_norms";
    case Phase::cast:
      return "amax";
    case Phase::gather:
      return "parameters";
    default:
      return span.name;
  }
}

Json node_json(const TreeNode& node) {
  Json pair = Json::array();
  pair.push_back(node.level);
  pair.push_back(node.index);
  return pair;
}

/// Nodes in the exchange number `exchange` of reduce: those of one micro-step, for every bucket, or
/// of the step.
Json sent_nodes_json(const StepTrace& trace, int rank, std::size_t exchange) {
  const std::vector<TreeNode> nodes = sent_nodes(trace, rank);
  Json all = Json::array();
  if (!trace.shape(rank).strided()) {
    for (const TreeNode& node : nodes) all.push_back(node_json(node));
    return all;
  }
  const std::size_t micro_step = exchange / trace.shards.buckets().size();
  if (micro_step < nodes.size()) all.push_back(node_json(nodes[micro_step]));
  return all;
}

std::vector<int> gathered_units(const TracedStep& step) {
  std::vector<int> units;
  for (const TracedVisit& visit : step.visits) {
    if (visit.event == Event::gather) units.push_back(visit.unit);
  }
  return units;
}

}  // namespace

Json messages_json(const StepTrace& trace, std::size_t step, Phase phase) {
  Json all = Json::array();
  for (std::size_t rank = 0; rank < trace.production.size(); ++rank) {
    const TracedStep& mine = trace.production[rank].steps[step];
    const std::vector<int> units = gathered_units(mine);
    int call = 0;
    std::size_t exchanges = 0;
    std::size_t gathers = 0;
    for (const TracedSpan& span : mine.collectives) {
      if (span.phase != phase) continue;
      const bool exchange = phase == Phase::reduce && span.name == "all_to_all";
      const bool of_matrices = phase == Phase::update && span.name == "all_to_all";
      const bool gather =
          phase == Phase::reduce && span.name == "all_gather" && gathers < units.size();
      for (std::size_t to = 0; to < span.sent.size(); ++to) {
        if (span.sent[to] == 0) continue;
        Json message = {{"call", call},
                        {"collective", span.name},
                        {"from", rank},
                        {"to", to},
                        {"what", content_of(trace, span, gather, exchanges > 0)},
                        {"bytes", span.sent[to]}};
        if (exchange) message["nodes"] = sent_nodes_json(trace, static_cast<int>(rank), exchanges);
        if (gather) message["unit"] = units[gathers];
        all.push_back(message);
      }
      ++call;
      exchanges += exchange || of_matrices ? 1 : 0;
      gathers += gather ? 1 : 0;
    }
  }
  return all;
}

Json visits_json(const StepTrace& trace, std::size_t step) {
  Json all = Json::array();
  for (std::size_t rank = 0; rank < trace.production.size(); ++rank) {
    for (const TracedVisit& visit : trace.production[rank].steps[step].visits) {
      Json one = {{"rank", rank}, {"event", name(visit.event)}, {"unit", visit.unit}};
      one["micro_batch"] = visit.micro_batch < 0 ? Json() : Json(visit.micro_batch);
      all.push_back(one);
    }
  }
  return all;
}

Json events_json(const StepTrace& trace, std::size_t step, Phase phase) {
  Json all = Json::array();
  for (const TracedEvent& event : traced_events(trace, step, phase)) {
    Json one = {{"kind", event.kind}};
    if (!event.of.empty()) one["of"] = Json(event.of);
    if (!event.gathers.empty()) one["gathers"] = Json(event.gathers);
    all.push_back(one);
  }
  return all;
}

Json memory_json(const StepTrace& trace, std::size_t step, Phase phase) {
  Json all = Json::array();
  const std::vector<TracedEvent> events = traced_events(trace, step, phase);
  for (std::size_t rank = 0; rank < trace.production.size(); ++rank) {
    for (const TracedMemory& memory : memory_changes(trace.production[rank].steps[step], phase)) {
      all.push_back({{"rank", rank},
                     {"event", event_of(events, rank, memory)},
                     {"at", memory.at},
                     {"class", name(memory.kind)},
                     {"bytes", memory.bytes},
                     {"change", memory.change}});
    }
  }
  return all;
}

}  // namespace zeroproof::verification
