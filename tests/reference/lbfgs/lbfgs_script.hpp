#pragma once
// A closure with scripted results, and an optimizer on one rank, to reach every branch.

#include "tests/reference/lbfgs/lbfgs_support.hpp"

namespace zeroproof::tests {

struct ScriptLine {
  double f = 0;
  std::vector<float> g;
};

/// Returns one line per evaluation, for any x; the test fails if there are more evaluations than
/// lines.
class ScriptedClosure final : public Closure {
 public:
  ScriptedClosure(std::vector<ScriptLine> lines, std::vector<std::vector<float>>& visited)
      : lines_(std::move(lines)), visited_(visited) {}

 private:
  double compute(Span<const float> master_shard, Span<float> grad_shard) override {
    const std::size_t line = static_cast<std::size_t>(evaluations() - 1);
    REQUIRE(line < lines_.size());
    const std::vector<float>& g = lines_[line].g;
    visited_.emplace_back(master_shard.begin(),
                          master_shard.begin() + static_cast<std::ptrdiff_t>(g.size()));
    for (const float value : grad_shard) REQUIRE(std::isnan(value));
    std::ranges::copy(g, grad_shard.begin());
    return lines_[line].f;
  }

  std::vector<ScriptLine> lines_;
  std::vector<std::vector<float>>& visited_;
};

struct Scripted {
  explicit Scripted(std::int64_t numel)
      : layout({{"x", {numel}}}),
        shards(layout.padded_numel(), 1, 1024),
        comm(make_self_communicator()) {
    hyper.max_eval = 1000;
  }

  void make() { optimizer = reference::make_lbfgs({&layout, &shards, comm.get(), hyper, {}}); }
  void start(const std::vector<float>& x) {
    make();
    optimizer->load_state(starting_at(layout, x).view());
  }

  /// One step, which has to use all lines.
  LbfgsReport step(const std::vector<ScriptLine>& lines) {
    ScriptedClosure closure(lines, visited);
    const LbfgsReport report = optimizer->step(closure);
    CHECK(closure.evaluations() == static_cast<std::int64_t>(lines.size()));
    return report;
  }

  LbfgsState state() const { return optimizer->state(); }
  OwnedState owned() const {
    OwnedState result;
    result.add(state(), shards.shard(0), static_cast<std::size_t>(layout.padded_numel()));
    return result;
  }
  std::vector<float> x() const { return elements(owned().master, layout); }

  /// True if the state has x only.
  bool forgot() const {
    const LbfgsState s = state();
    return s.rho.empty() && s.steps.empty() && s.h == 1 && !s.pending && !s.started;
  }

  FlatLayout layout;
  ShardMap shards;
  std::unique_ptr<Communicator> comm;
  LbfgsHyper hyper;
  std::unique_ptr<LbfgsOptimizer> optimizer;
  std::vector<std::vector<float>> visited;  // every x that was evaluated
};

}  // namespace zeroproof::tests
