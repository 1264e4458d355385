#include <chrono>
#include <memory>

#include "common/comm/self.hpp"
#include "cuda/enqueued_optimizer.hpp"
#include "verification/bench/device/cases.hpp"
#include "verification/bench/device/suite.hpp"

namespace zeroproof::verification::bench {
namespace {

/// One rank alone, its model and its leaf.
class OwnStep {
 public:
  OwnStep(std::int64_t tensors, std::int64_t numel, bool fused)
      : layout_(cut_into(tensors, numel)),
        shards_(layout_.padded_numel(), 1, layout_.padded_numel()),
        comm_(make_self_communicator()),
        optimizer_(cuda::make_enqueued_optimizer(step_setup(layout_, shards_, *comm_, 1), fused, fused)),
        leaf_(layout_),
        fused_(fused) {
    optimizer_->load_state(FirstState(layout_).view());
  }

  std::int64_t numel() const { return elements_of(layout_); }

  /// One step more than are timed: the last one starts where the time ends.
  double device_seconds(int steps) {
    leaf_.mark(static_cast<std::size_t>(steps) + 1);
    for (int i = 0; i <= steps; ++i) step();
    if (fused_) optimizer_->wait();
    return leaf_.seconds_per_step();
  }

  /// Of the host, for one step that it enqueues.
  double host_seconds(int steps) {
    leaf_.mark(0);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) optimizer_->enqueue_step(leaf_);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    optimizer_->wait();
    return took.count() / steps;
  }

  Digest params() { return digest_of(*optimizer_, layout_, Phase::cast); }

 private:
  void step() {
    if (fused_) return optimizer_->enqueue_step(leaf_);
    optimizer_->step(leaf_);
  }

  const FlatLayout layout_;
  const ShardMap shards_;
  const std::unique_ptr<Communicator> comm_;
  const std::unique_ptr<cuda::EnqueuedOptimizer> optimizer_;
  FixedLeaf leaf_;
  const bool fused_;
};

/// 16-bit leaf to G, G for the norm, and what the update moves.
Row step_row(const std::string& name, std::int64_t numel) {
  Row row{name, 40, numel, {}};
  row.limits = {"R2W4", "R", "4R3W+W2"};
  return row;
}

}  // namespace

Group measure_steps(std::int64_t numel, int rounds, std::vector<Check>& checks) {
  constexpr int steps = 4;
  const KernelData data(numel, 1);
  OwnStep one(1, numel, true), phases(1, numel, false), many(300, numel, true);
  DeviceRows rows;
  add_limit_rows(rows, data);
  rows.add(step_row("step, 1 tensor", one.numel()), [&] { return one.device_seconds(steps); });
  rows.add(step_row("step, 300 tensors", many.numel()), [&] { return many.device_seconds(steps); });
  rows.add(step_row("step in phases, 1 tensor", phases.numel()),
           [&] { return phases.device_seconds(steps); });
  rows.measure(rounds);
  checks.push_back({"two passes in a graph = phases: parameters, after every round",
                    one.params() == phases.params(), std::to_string(numel)});
  Group group{
      "steps through make_enqueued_optimizer, one rank, " + std::to_string(numel) + " elements, bf16 leaves",
      std::move(rows.rows)};
  group.judge_row("step, of its 40 bytes' time", "step, 1 tensor", 1.08);
  group.judge_ratio("300 tensors, of one tensor's time", "step, 300 tensors", "step, 1 tensor", 1.03, false);
  group.judge_ratio("step in phases, of the step's time", "step in phases, 1 tensor", "step, 1 tensor", 1.6,
                    true);
  return group;
}

Group measure_small_step(std::int64_t numel, int rounds) {
  constexpr int steps = 32;  // fewer than may be enqueued ahead
  OwnStep step(1, numel, true);
  DeviceRows rows;
  rows.add({"step, device", 40, numel, {}}, [&] { return step.device_seconds(steps); });
  rows.add({"step, host", 0, numel, {}}, [&] { return step.host_seconds(steps); });
  rows.measure(rounds);
  Group group{"a small step, " + std::to_string(numel) + " elements", std::move(rows.rows)};
  group.figures.push_back({"host time of an enqueued step", 1e6 * group.rows[1].median(), 20, false, "us"});
  group.figures.push_back({"device time of a step", 1e6 * group.rows[0].median(), 30, false, "us"});
  return group;
}

}  // namespace zeroproof::verification::bench
