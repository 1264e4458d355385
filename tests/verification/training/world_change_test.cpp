// A run that continues with another number of ranks, stage or layout has the bits of one that never
// changed.

#include <doctest.h>

#include <map>

#include "tests/verification/training/training_support.hpp"

namespace world_change_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using verification::Snapshot;
using verification::train;

constexpr std::int64_t half = 3;  // steps before the change; the third one overflows
constexpr std::int64_t steps = 6;

/// From every world to every other, in the middle of the run.
void check_all_pairs(TinyTraining& run, int stage_before, int stage_after,
                     const verification::RankComparison::MakeOptimizer& before,
                     const verification::RankComparison::MakeOptimizer& after) {
  const FlatLayout& layout = run.experiment.layout();
  const Digest whole =
      train(run.experiment, run.leaves, run.spec(1, 0), run.first, 1, steps, before).digest(layout);
  for (int world = 1; world <= 8; ++world) {
    const Snapshot middle = train(run.experiment, run.leaves, run.spec(world, stage_before),
                                  run.first, 1, half, before);
    for (int other = 1; other <= 8; ++other) {
      const Snapshot end = train(run.experiment, run.leaves, run.spec(other, stage_after), middle,
                                 half + 1, steps, after);
      CAPTURE(world);
      CAPTURE(other);
      CHECK(end.digest(layout) == whole);
      CHECK(end.applied_steps == run.first.applied_steps + steps - 1);
    }
  }
}

}  // namespace

TEST_CASE("world change: W -> W' for all pairs in 1..8 keeps every bit") {
  TinyTraining run(DType::fp16);
  check_all_pairs(run, 1, 1, host_optimizer(), host_optimizer());
  check_all_pairs(run, 2, 3, host_optimizer(), fused_optimizer());
}

TEST_CASE("world change: with stochastic rounding and unused tensors") {
  TinyTraining run(DType::bf16, "adamw-stochastic");
  check_all_pairs(run, 3, 0, fused_optimizer(), host_optimizer());
}

TEST_CASE("world change: from the reference to production and back") {
  TinyTraining run(DType::fp16);
  check_all_pairs(run, 3, 2, reference_optimizer(), host_optimizer());
}

TEST_CASE("snapshot digest: depends on every field") {
  const TinyTraining run(DType::fp16, "adamw-stochastic");
  const FlatLayout& layout = run.experiment.layout();
  const Digest before = run.first.digest(layout);
  const auto changed = [&](auto change) {
    Snapshot copy = run.first;
    change(copy);
    return copy.digest(layout) != before;
  };
  CHECK(!changed([](Snapshot&) {}));
  CHECK(changed([](Snapshot& s) { s.master[0] += 1; }));
  CHECK(changed([](Snapshot& s) { s.slots[StateSlot::exp_avg_sq][0] += 1; }));
  CHECK(changed([](Snapshot& s) { s.slots[StateSlot::momentum_buffer][0] += 1; }));
  CHECK(changed([](Snapshot& s) { ++s.tensor_steps.back(); }));
  CHECK(changed([](Snapshot& s) { ++s.applied_steps; }));
  CHECK(changed([](Snapshot& s) { ++s.scaler.growth_tracker; }));
  CHECK(changed([](Snapshot& s) { ++s.scaler.hysteresis_left; }));
}

}  // namespace world_change_test
