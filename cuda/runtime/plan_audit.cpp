#include "cuda/runtime/plan_audit.hpp"

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "common/base/error.hpp"

namespace zeroproof::cuda {
namespace {

using Finding = std::optional<PlanFinding>;

bool contains(const std::vector<PlanBuffer>& buffers, const PlanBuffer& buffer) {
  for (const PlanBuffer& one : buffers) {
    if (one == buffer) return true;
  }
  return false;
}

class Audit {
 public:
  explicit Audit(const StepPlan& plan) : plan_(plan), count_(plan.ops.size()), words_((count_ + 63) / 64) {}

  Finding run() {
    Finding finding = link();
    if (!finding) finding = close();
    if (!finding) finding = find_late();
    if (!finding) finding = find_unordered();
    if (!finding) finding = find_dead();
    return finding;
  }

 private:
  std::string text(std::size_t op) const {
    return name(plan_.ops[op]) + " (operation " + std::to_string(op) + ", " +
           std::string(name(plan_.ops[op].stream)) + " stream)";
  }
  static PlanFinding at(PlanFault fault, std::size_t op, std::string text) {
    return {fault, static_cast<int>(op), -1, std::move(text)};
  }

  /// Direct predecessors: the one before on the same stream, and who records the events waited for.
  Finding link() {
    std::map<int, std::size_t> recorded_by;
    for (std::size_t i = 0; i < count_; ++i) {
      if (plan_.ops[i].records < 0) continue;
      if (!recorded_by.emplace(plan_.ops[i].records, i).second) {
        return at(PlanFault::twice_recorded, i,
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
                    text(i) + " waits for event " + std::to_string(event) + ", which nothing records");
        }
        before_[i].push_back(source->second);
      }
    }
    return {};
  }

  /// Everything that happens before an operation, as bits [op][op], in an order that respects the
  /// predecessors.
  Finding close() {
    happens_.assign(count_ * words_, 0);
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
        for (std::size_t w = 0; w < words_; ++w) happens_[i * words_ + w] |= happens_[p * words_ + w];
        happens_[i * words_ + p / 64] |= std::uint64_t{1} << (p % 64);
      }
      for (const std::size_t next : after[i]) {
        if (--missing[next] == 0) queue.push_back(next);
      }
    }
    if (queue.size() == count_) return {};
    std::size_t stuck = 0;
    while (missing[stuck] == 0 || plan_.ops[stuck].waits.empty()) ++stuck;
    return at(PlanFault::deadlock, stuck, text(stuck) + " waits for an event that is recorded only after it");
  }

  bool precedes(std::size_t a, std::size_t b) const {
    return (happens_[b * words_ + a / 64] >> (a % 64) & 1U) != 0;
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

  Finding find_unordered() const {
    std::map<PlanBuffer, std::vector<std::pair<std::size_t, bool>>> uses;  // operation, whether it writes
    for (std::size_t i = 0; i < count_; ++i) {
      std::map<PlanBuffer, bool> mine;
      for (const PlanBuffer& buffer : plan_.ops[i].reads) mine.emplace(buffer, false);
      for (const PlanBuffer& buffer : plan_.ops[i].writes) mine[buffer] = true;
      for (const auto& [buffer, writes] : mine) {
        for (const auto& [earlier, wrote] : uses[buffer]) {
          if (!(writes || wrote) || precedes(earlier, i)) continue;
          return PlanFinding{
              PlanFault::unordered, static_cast<int>(earlier), static_cast<int>(i),
              text(earlier) + " and " + text(i) + " both touch the " + name(buffer) + " in no fixed order"};
        }
        uses[buffer].emplace_back(i, writes);
      }
    }
    return {};
  }

  /// Uses of a buffer are ordered by now, so the order of enqueuing is the order of any run.
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
        if (!state.written) return at(PlanFault::unwritten, i, what + ", which nothing has written");
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
        if (!state.alive || contains(plan_.resident, buffer))
          return at(PlanFault::not_alive, i, what + ", which is not alive or not the plan's to change");
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
      if (state.alive && !contains(plan_.resident, buffer))
        return PlanFinding{PlanFault::leak, -1, -1,
                           "the " + name(buffer) + " is alive after the last operation"};
    }
    return {};
  }

  const StepPlan& plan_;
  std::size_t count_, words_;
  std::vector<std::vector<std::size_t>> before_;  // [op]
  std::vector<std::uint64_t> happens_;            // [op][words_]: bit p is set if p happens before op
};

}  // namespace

std::optional<PlanFinding> audit_plan(const StepPlan& plan) { return Audit(plan).run(); }

void require_sound(const StepPlan& plan) {
  const std::optional<PlanFinding> finding = audit_plan(plan);
  ZP_CHECK(!finding, ErrorCode::internal, "a plan of a training step is wrong: " + finding->text,
           "its result would depend on timing", "report this with the command line");
}

}  // namespace zeroproof::cuda
