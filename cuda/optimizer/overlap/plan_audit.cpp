#include "cuda/optimizer/overlap/plan_audit.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/error.hpp"

namespace zeroproof::cuda {
namespace {

using Finding = std::optional<PlanFinding>;

bool contains(const std::vector<PlanBuffer>& buffers, const PlanBuffer& buffer) {
  return std::ranges::find(buffers, buffer) != buffers.end();
}

class Audit {
 public:
  explicit Audit(const StepPlan& plan)
      : plan_(plan),
        count_(plan.ops.size()),
        resident_(plan.resident.begin(), plan.resident.end()) {}

  Finding run() {
    Finding finding = link();
    if (!finding) finding = close();
    if (!finding) finding = find_late();
    if (!finding) finding = find_unordered();
    if (!finding) finding = find_dead();
    return finding;
  }

 private:
  using Latest = std::array<std::int64_t, num_plan_streams>;  // [stream] an operation, -1: none
  static constexpr Latest no_operations{-1, -1};

  std::string text(std::size_t op) const {
    return name(plan_.ops[op]) + " (operation " + std::to_string(op) + ", " +
           std::string(name(plan_.ops[op].stream)) + " stream)";
  }
  static PlanFinding at(PlanFault fault, std::size_t op, std::string text) {
    return {fault, static_cast<int>(op), -1, std::move(text)};
  }

  /// Direct predecessors: the previous operation on the same stream, and those that record the
  /// awaited events.
  Finding link() {
    std::map<int, std::size_t> recorded_by;
    for (std::size_t i = 0; i < count_; ++i) {
      if (plan_.ops[i].records < 0) continue;
      if (!recorded_by.emplace(plan_.ops[i].records, i).second) {
        return at(
            PlanFault::twice_recorded, i,
            text(i) + " records event " + std::to_string(plan_.ops[i].records) + " a second time");
      }
    }
    before_.resize(count_);
    std::array<std::optional<std::size_t>, num_plan_streams> last;
    for (std::size_t i = 0; i < count_; ++i) {
      auto& previous = last[static_cast<std::size_t>(plan_.ops[i].stream)];
      if (previous) before_[i].push_back(*previous);
      previous = i;
      for (const int event : plan_.ops[i].waits) {
        const auto source = recorded_by.find(event);
        if (source == recorded_by.end()) {
          return at(PlanFault::deadlock, i,
                    text(i) + " waits for event " + std::to_string(event) +
                        ", which no operation records");
        }
        before_[i].push_back(source->second);
      }
    }
    return {};
  }

  /// The operations that happen before each operation, in an order that respects the predecessors.
  /// Operations of a stream are ordered, so the latest one of each stream is enough.
  Finding close() {
    happens_.assign(count_, no_operations);
    std::vector<std::size_t> missing(count_);
    std::vector<std::vector<std::size_t>> after(count_);
    std::vector<std::size_t> queue;
    for (std::size_t i = 0; i < count_; ++i) {
      missing[i] = before_[i].size();
      for (const std::size_t p : before_[i]) after[p].push_back(i);
      if (missing[i] == 0) queue.push_back(i);
    }
    for (std::size_t head = 0; head < queue.size(); ++head) {
      const std::size_t i = queue[head];
      for (const std::size_t p : before_[i]) {
        for (std::size_t s = 0; s < num_plan_streams; ++s)
          happens_[i][s] = std::max(happens_[i][s], happens_[p][s]);
        std::int64_t& latest = happens_[i][static_cast<std::size_t>(plan_.ops[p].stream)];
        latest = std::max(latest, static_cast<std::int64_t>(p));
      }
      for (const std::size_t next : after[i]) {
        if (--missing[next] == 0) queue.push_back(next);
      }
    }
    if (queue.size() == count_) return {};
    std::size_t stuck = 0;
    while (missing[stuck] == 0 || plan_.ops[stuck].waits.empty()) ++stuck;
    return at(PlanFault::deadlock, stuck,
              text(stuck) + " waits for an event that is recorded only after it");
  }

  bool precedes(std::size_t a, std::size_t b) const {
    return happens_[b][static_cast<std::size_t>(plan_.ops[a].stream)] >=
           static_cast<std::int64_t>(a);
  }

  Finding find_late() const {
    for (std::size_t i = 0; i < count_; ++i) {
      for (const std::size_t p : before_[i]) {
        if (p > i)
          return at(PlanFault::late_event, i,
                    text(i) + " is enqueued before " + text(p) + ", which it waits for");
      }
    }
    return {};
  }

  /// The first operation of a stream that uses a buffer in no order with operation i, if i comes
  /// after it in the plan and one of the two writes.
  std::size_t first_unordered(const PlanBuffer& buffer, std::size_t stream, bool writes,
                              std::size_t i) const {
    std::size_t earlier = 0;
    for (; earlier < i; ++earlier) {
      const PlanOp& op = plan_.ops[earlier];
      const bool touches = contains(op.writes, buffer) || (writes && contains(op.reads, buffer));
      if (static_cast<std::size_t>(op.stream) == stream && touches && !precedes(earlier, i)) break;
    }
    return earlier;
  }

  Finding find_unordered() const {
    struct Uses {
      Latest any = no_operations, write = no_operations;
    };
    std::map<PlanBuffer, Uses> uses;
    for (std::size_t i = 0; i < count_; ++i) {
      std::map<PlanBuffer, bool> mine;
      for (const PlanBuffer& buffer : plan_.ops[i].reads) mine.emplace(buffer, false);
      for (const PlanBuffer& buffer : plan_.ops[i].writes) mine[buffer] = true;
      for (const auto& [buffer, writes] : mine) {
        Uses& before = uses[buffer];
        for (std::size_t s = 0; s < num_plan_streams; ++s) {
          const std::int64_t latest = writes ? before.any[s] : before.write[s];
          if (latest < 0 || precedes(static_cast<std::size_t>(latest), i)) continue;
          const std::size_t earlier = first_unordered(buffer, s, writes, i);
          return PlanFinding{PlanFault::unordered, static_cast<int>(earlier), static_cast<int>(i),
                             text(earlier) + " and " + text(i) + " both touch the " + name(buffer) +
                                 " in no fixed order"};
        }
        const auto stream = static_cast<std::size_t>(plan_.ops[i].stream);
        before.any[stream] = static_cast<std::int64_t>(i);
        if (writes) before.write[stream] = static_cast<std::int64_t>(i);
      }
    }
    return {};
  }

  /// Uses of a buffer are ordered at this point, so the order of enqueuing is the order of any run.
  Finding find_dead() const {
    struct State {
      bool alive = false, written = false, ready = false, reduced = false;
    };
    std::map<PlanBuffer, State> states;
    for (const PlanBuffer& buffer : plan_.resident) states[buffer] = {true, true, false, false};
    for (std::size_t i = 0; i < count_; ++i) {
      const PlanOp& op = plan_.ops[i];
      for (const PlanBuffer& buffer : op.reads) {
        State& state = states[buffer];
        const std::string what = text(i) + " reads the " + name(buffer);
        if (!state.alive) return at(PlanFault::not_alive, i, what + ", which is not alive");
        if (!state.written)
          return at(PlanFault::unwritten, i, what + ", which no operation has written");
        if (op.kind == OpKind::reduce && !state.ready)
          return at(PlanFault::not_ready, i, what + ", which no unit was declared ready for");
        state.reduced = state.reduced || op.kind == OpKind::reduce;
      }
      for (const PlanBuffer& buffer : op.writes) {
        State& state = states[buffer];
        const std::string what = text(i) + " touches the " + name(buffer);
        if (op.kind == OpKind::allocate) {
          if (state.alive) return at(PlanFault::alive, i, what + ", which is alive already");
          state = {true, false, false, false};
          continue;
        }
        if (!state.alive || resident_.contains(buffer))
          return at(PlanFault::not_alive, i,
                    what + ", which is not alive or not writable by the plan");
        if (op.kind == OpKind::free || op.kind == OpKind::release) {
          state = {};
          continue;
        }
        if (state.reduced || (state.ready && op.kind != OpKind::ready))
          return at(PlanFault::sealed, i, what + " after it was declared ready or reduced");
        state.written = true;
        if (op.kind == OpKind::ready) state.ready = true;
      }
    }
    for (const auto& [buffer, state] : states) {
      if (state.alive && !resident_.contains(buffer))
        return PlanFinding{PlanFault::leak, -1, -1,
                           "the " + name(buffer) + " is alive after the last operation"};
    }
    return {};
  }

  const StepPlan& plan_;
  std::size_t count_;
  const std::set<PlanBuffer> resident_;
  std::vector<std::vector<std::size_t>> before_;  // [op]
  std::vector<Latest> happens_;                   // [op]
};

}  // namespace

std::optional<PlanFinding> audit_plan(const StepPlan& plan) { return Audit(plan).run(); }

void require_sound(const StepPlan& plan) {
  const std::optional<PlanFinding> finding = audit_plan(plan);
  ZP_CHECK(!finding, ErrorCode::internal, "a plan of a training step is wrong: " + finding->text,
           "its result would depend on timing", "report this with the command line");
}

}  // namespace zeroproof::cuda
