#include "verification/tools/trace/event_order.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace zeroproof::verification {
namespace {

constexpr const char* message = "message";

/// What one rank does, and when.
struct Act {
  int place;
  std::string kind;
  std::int64_t of;
  std::int64_t gather = -1;  ///< of a message
};

std::int64_t bytes_of(const TracedSpan& span) {
  return std::accumulate(span.sent.begin(), span.sent.end(), std::int64_t{0});
}

/// Collectives of a rank in a phase.
std::vector<const TracedSpan*> calls_of(const TracedStep& step, Phase phase) {
  std::vector<const TracedSpan*> calls;
  for (const TracedSpan& span : step.collectives) {
    if (span.phase == phase) calls.push_back(&span);
  }
  return calls;
}

/// first_visit: index of the rank's first visit among those of all ranks.
std::vector<Act> acts_of(const TracedStep& step, Phase phase, std::int64_t first_visit,
                         const std::vector<bool>& sends) {
  std::vector<Act> acts;
  const std::vector<const TracedSpan*> calls = calls_of(step, phase);
  for (std::size_t c = 0; c < calls.size(); ++c) {
    if (sends[c]) acts.push_back({calls[c]->place, message, static_cast<std::int64_t>(c)});
  }
  if (phase == Phase::reduce) {
    for (std::size_t v = 0; v < step.visits.size(); ++v) {
      acts.push_back({step.visits[v].place, name(step.visits[v].event),
                      first_visit + static_cast<std::int64_t>(v)});
    }
    for (const TracedLeaf& leaf : step.leaves) {
      acts.push_back({leaf.place, "leaf", leaf.micro_batch});
    }
  }
  std::stable_sort(acts.begin(), acts.end(),
                   [](const Act& a, const Act& b) { return a.place < b.place; });
  for (std::size_t i = 0; i + 1 < acts.size(); ++i) {  // the message fills the gathered unit
    if (acts[i].kind != "gather" || acts[i + 1].kind != message) continue;
    acts[i + 1].gather = acts[i].of;
    acts[i + 1].place = acts[i].place;
    acts.erase(acts.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return acts;
}

/// Nodes of the tree in reduce: each is an event as soon as the ranks that add it have its leaves.
class NodeOrder {
 public:
  NodeOrder(const StepTrace& trace, std::size_t step)
      : trace_(trace),
        nodes_(traced_nodes(trace, step)),
        added_(nodes_.size()),
        leaves_(trace.settings.micro_batches) {
    for (const TracedSpan* const call : calls_of(trace.production[0].steps[step], Phase::reduce))
      exchanges_ += is_exchange(*call) ? 1 : 0;
  }

  static bool is_exchange(const TracedSpan& span) { return span.name == "all_to_all"; }

  void leaf(std::int64_t micro_batch) { leaves_[static_cast<std::size_t>(micro_batch)] = true; }
  void exchange() { ++exchanged_; }

  void add_ready(std::vector<TracedEvent>& events, bool all = false) {
    for (int level = 1; level <= 64; ++level) {
      TracedEvent event{"node"};
      for (std::size_t n = 0; n < nodes_.size(); ++n) {
        if (added_[n] || nodes_[n].level != level || !(all || ready(nodes_[n]))) continue;
        added_[n] = true;
        event.of.push_back(static_cast<std::int64_t>(n));
      }
      if (!event.of.empty()) events.push_back(event);
    }
  }

 private:
  bool ready(const TracedNode& node) const {
    const std::int64_t micro_batches = trace_.settings.micro_batches;
    const std::int64_t begin = node.index << node.level;
    const std::int64_t end = std::min((node.index + 1) << node.level, micro_batches);
    if (adding_rank(trace_, node) < 0) {
      if (!trace_.shape(0).strided()) return exchanged_ == exchanges_;
      const auto buckets = static_cast<std::int64_t>(trace_.shards.buckets().size());
      return exchanged_ / buckets * trace_.settings.world_size >= end;
    }
    return std::all_of(leaves_.begin() + begin, leaves_.begin() + end, [](bool is) { return is; });
  }

  const StepTrace& trace_;
  const std::vector<TracedNode> nodes_;
  std::vector<bool> added_, leaves_;
  std::int64_t exchanges_ = 0, exchanged_ = 0;
};

/// Puts the acts of all ranks together.
void merge(const std::vector<std::vector<Act>>& acts, std::vector<TracedEvent>& events,
           const std::function<void(const TracedEvent&)>& after) {
  std::vector<std::size_t> at(acts.size());
  const auto next = [&](std::size_t r) {
    return at[r] < acts[r].size() ? &acts[r][at[r]] : nullptr;
  };
  while (true) {
    const Act* first = nullptr;  // a message only if all ranks have come to it
    for (std::size_t r = 0; r < acts.size(); ++r) {
      const Act* const act = next(r);
      if (act && (!first || (first->kind == message && act->kind != message))) first = act;
    }
    if (!first) return;
    TracedEvent event{first->kind, {}, {}, std::vector<int>(acts.size(), -1)};
    for (std::size_t r = 0; r < acts.size(); ++r) {
      const Act* const act = next(r);
      if (!act || act->kind != first->kind) continue;
      if (act->kind != message || event.of.empty()) event.of.push_back(act->of);
      if (act->gather >= 0) event.gathers.push_back(act->gather);
      event.places[r] = act->place;
      ++at[r];
    }
    events.push_back(event);
    after(event);
  }
}

}  // namespace

int adding_rank(const StepTrace& trace, const TracedNode& node) {
  const std::vector<int> ranks = computing_ranks(trace);
  if (trace.shape(0).strided() && trace.settings.world_size > 1) return -1;
  const auto begin = static_cast<std::size_t>(node.index << node.level);
  const std::size_t end =
      std::min(static_cast<std::size_t>(node.index + 1) << node.level, ranks.size());
  for (std::size_t j = begin; j < end; ++j) {
    if (ranks[j] != ranks[begin]) return -1;
  }
  return ranks[begin];
}

std::vector<TracedEvent> traced_events(const StepTrace& trace, std::size_t step, Phase phase) {
  std::vector<TracedEvent> events;
  if (phase == Phase::prepare) events.push_back({"state"});
  const TracedStep& first = trace.shown().front().steps[step];
  if (first.skipped && skipped_on_overflow(phase)) return {{"skipped"}};
  if (phase == Phase::norm) events.push_back({"chunks"});

  std::vector<bool> sends;
  for (const TracedRank& rank : trace.production) {
    const std::vector<const TracedSpan*> calls = calls_of(rank.steps[step], phase);
    sends.resize(std::max(sends.size(), calls.size()));
    for (std::size_t c = 0; c < calls.size(); ++c) sends[c] = sends[c] || bytes_of(*calls[c]) > 0;
  }
  std::vector<std::vector<Act>> acts;
  std::int64_t visits = 0;
  for (const TracedRank& rank : trace.production) {
    acts.push_back(acts_of(rank.steps[step], phase, visits, sends));
    visits += static_cast<std::int64_t>(rank.steps[step].visits.size());
  }
  if (phase == Phase::reduce) {
    const std::vector<const TracedSpan*> calls = calls_of(trace.production[0].steps[step], phase);
    NodeOrder nodes(trace, step);
    merge(acts, events, [&](const TracedEvent& event) {
      if (event.kind == "leaf") {
        for (const std::int64_t j : event.of) nodes.leaf(j);
      } else if (event.kind == message && NodeOrder::is_exchange(*calls[event.of.front()])) {
        nodes.exchange();
      } else {
        return;
      }
      nodes.add_ready(events);
    });
    nodes.add_ready(events, true);  // a fault may leave the exchange out
  } else {
    merge(acts, events, [](const TracedEvent&) {});
  }
  const bool writes =
      std::any_of(first.buffers.begin(), first.buffers.end(),
                  [&](const TracedBuffer& buffer) { return buffer.phase == phase; });
  events.push_back({writes ? "write" : "nothing"});
  return events;
}

std::size_t event_of(const std::vector<TracedEvent>& events, std::size_t rank,
                     const TracedMemory& memory) {
  std::size_t found = 0;
  for (std::size_t e = 0; e < events.size(); ++e) {
    if (!events[e].places.empty() && events[e].places[rank] >= 0 &&
        events[e].places[rank] <= memory.place)
      found = e;
  }
  // Seen at the end, after the last act: in the nodes or buffers that follow it.
  return memory.at == "end of the phase" ? std::min(found + 1, events.size() - 1) : found;
}

std::vector<TracedMemory> memory_changes(const TracedStep& step, Phase phase) {
  const bool of_visits = phase == Phase::reduce && !step.visits.empty();
  std::vector<TracedMemory> all;
  for (const TracedMemory& memory : step.memory) {
    if (memory.phase == phase && !(of_visits && memory.kind == MemoryClass::param_full))
      all.push_back(memory);
  }
  if (!of_visits) return all;
  for (const TracedVisit& visit : step.visits) {
    if (visit.change == 0) continue;
    all.push_back({phase,
                   std::string(name(visit.event)) + " " +
                       TracedModel::unit_name(static_cast<std::size_t>(visit.unit)),
                   MemoryClass::param_full, visit.bytes, visit.change, visit.place});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const TracedMemory& a, const TracedMemory& b) { return a.place < b.place; });
  return all;
}

}  // namespace zeroproof::verification
