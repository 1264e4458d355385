// Decisions between the passes of a step: halts, digests, several ranks, empty shards. Runs on a
// GPU and, in tests/cuda/device/sim, on the simulated device.

#include <doctest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "cuda/device/runtime/runtime.hpp"
#include "tests/cuda/device/step_passes_support.hpp"
#include "tests/cuda/expect_error.hpp"

namespace step_decide_test {

using namespace zeroproof;
using namespace zeroproof::device_test;

namespace {

constexpr std::uint32_t all_parts = device::decide_scalars | device::decide_scaler |
                                    device::decide_norm | device::decide_clip |
                                    device::decide_count;

/// After the expected halt: every pass in turn, and nothing changes.
void check_stays(StepOnDevice& run, const StepTruth& truth) {
  const std::vector<float> sums = sums_for(truth.c, 9, 4);
  run.begin(sums, {});
  const device::StepFound before = run.seen();
  const std::vector<std::function<void()>> passes = {
      [&] { run.decide(all_parts, true); },
      [&] { enqueue_unscale(run.memory); },
      [&] { enqueue_finite_norm(run.memory, run.rules); },
      [&] { enqueue_norm(run.memory, run.rules); },
      [&] { enqueue_clip(run.memory, run.rules); },
      [&] { enqueue_trust_norms(run.memory, run.rules, true); },
      [&] { enqueue_trust_ratios(run.memory); },
      [&] { enqueue_update(run.memory, run.rules); },
      [&] { enqueue_cast(run.memory, run.rules); },
      [&] { enqueue_fused_update(run.memory, run.rules); },
  };
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    CAPTURE(pass);
    passes[pass]();
    run.check_memory(truth, sums);
    const device::StepFound after = run.seen();
    CHECK(std::memcmp(&before, &after, sizeof before) == 0);
  }
}

/// A rank's digests, of the given case.
device::StepFound digests_of(const StepCase& c, std::uint64_t applied = 0) {
  StepTruth truth(c);
  truth.state.applied_steps = applied;
  StepOnDevice run(truth);
  run.begin(sums_for(c, 1, 4), {});
  run.decide(device::decide_scalars);
  return run.seen();
}

}  // namespace

TEST_CASE("device: an error halts the run, and the halt stays") {
  if (!usable()) return;
  for (const Way way : {Way::phases, Way::two_passes, Way::of_ranks}) {
    StepCase c = small_case();
    c.rules.on_nonfinite = OnNonfinite::error;
    StepTruth truth(c);
    StepOnDevice run(truth);
    for (int step = 1; step <= 2; ++step) {
      std::vector<float> sums = sums_for(c, static_cast<std::uint64_t>(step), 4);
      if (step == 2) sums[truth.begin(0) + 700] = -tests::inf32;
      truth.step(sums, {});
      run.step(way, sums, {});
      run.check_memory(truth, way != Way::phases ? sums : truth.b[grad]);
    }
    CHECK(truth.state.halt == device::halt_nonfinite);
    CHECK(truth.state.applied_steps == 1);
    CHECK(run.seen().t == 2);
    CHECK(run.seen().clip_coef == 0.0F);
    check_stays(run, truth);
  }
}

TEST_CASE("device: a schedule without a row for t, before its first and after its last") {
  if (!usable()) return;
  for (const Way way : {Way::phases, Way::two_passes, Way::of_ranks}) {
    for (const std::int64_t first : {1, 2, 6}) {
      CAPTURE(first);
      StepCase c = small_case();
      c.first_row_t = first;
      c.schedule = rows_for(first, 2, c.num_groups);
      StepTruth truth(c);
      truth.state.applied_steps = first == 1 ? 0 : 4;  // t = 5: past 2, 3 and before 6
      const int good = first == 1 ? 2 : 0;
      StepOnDevice run(truth);
      for (int step = 0; step <= good; ++step) {
        const std::vector<float> sums = sums_for(c, static_cast<std::uint64_t>(step), 4);
        truth.step(sums, {});
        run.step(way, sums, {});
        run.check_memory(truth, way != Way::phases || step == good ? sums : truth.b[grad]);
      }
      CHECK(truth.state.halt == device::halt_schedule_left);
      check_stays(run, truth);
    }
  }
}

TEST_CASE("device: scale and divisor beyond the ranges of R5") {
  if (!usable()) return;
  struct Refused {
    int log2_scale;
    std::int64_t divisor;
  };
  constexpr Refused all_refused[] = {
      {126, 2}, {-127, 1}, {0, 0}, {0, -3}, {0, std::int64_t{1} << 53}, {2000, 1}, {-2000, 1}};
  for (const Refused& refused : all_refused) {
    const int log2_scale = refused.log2_scale;
    const std::int64_t divisor = refused.divisor;
    CAPTURE(log2_scale);
    CAPTURE(divisor);
    StepCase c = small_case();
    c.rules.scaler.log2_initial = log2_scale;
    c.divisor = divisor;
    StepTruth truth(c);
    StepOnDevice run(truth);
    const std::vector<float> sums = sums_for(c, 1, 0);
    truth.step(sums, {});
    run.step(Way::two_passes, sums, {});
    CHECK(truth.state.halt == device::halt_scalars_refused);
    run.check_memory(truth, sums);
    check_stays(run, truth);
  }
}

TEST_CASE("device: digests depend on every scalar and its position only") {
  if (!usable()) return;
  const StepCase c = small_case();
  const std::uint64_t digest = digests_of(c).digest;
  CHECK(digests_of(c).digest == digest);
  StepCase elsewhere = c;
  elsewhere.parts = {{10, 1}};  // another shard of the same run
  elsewhere.rules.seed = 99;
  CHECK(digests_of(elsewhere).digest == digest);
  const std::vector<std::function<void(StepCase&)>> changes = {
      [](StepCase& x) {
        x.schedule[0].lr = std::nextafter(static_cast<float>(x.schedule[0].lr), 1.0F);
      },
      [](StepCase& x) { x.schedule[1].weight_decay = 0.05; },
      [](StepCase& x) { std::swap(x.schedule[0], x.schedule[1]); },
      [](StepCase& x) { x.divisor = 4; },
      [](StepCase& x) { x.rules.hyper.beta1 = 0.8F; },
      [](StepCase& x) { x.rules.hyper.eps = 1e-7; },
      [](StepCase& x) { x.rules.scaler.log2_initial = 5; },
  };
  std::vector<std::uint64_t> all = {digest, digests_of(c, 1).digest};
  for (const auto& change : changes) {
    StepCase other = c;
    change(other);
    all.push_back(digests_of(other).digest);
  }
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}

TEST_CASE(
    "device: ranks with different scalars halt after the maximum of digests and complements") {
  if (!usable()) return;
  const StepCase c = small_case();
  StepTruth truth(c);
  StepCase other_case = c;
  other_case.divisor = 4;
  const device::StepFound other = digests_of(other_case);
  for (const bool look : {true, false}) {
    StepOnDevice run(truth);
    const std::vector<float> sums = sums_for(c, 1, 4);
    run.begin(sums, {});
    run.decide(device::decide_scalars);
    device::StepFound found = run.seen();
    found.digest = std::max(found.digest, other.digest);
    found.not_digest = std::max(found.not_digest, other.not_digest);
    found.found_inf = 1;
    run.set_found(found);
    run.decide(device::decide_scaler, look);
    StepTruth expected(c);
    if (look) {
      expected.state.halt = device::halt_scalars_differ;
      run.check_memory(expected, sums);
      CHECK(run.seen().skipped == 0);
      check_stays(run, expected);
    } else {
      expected.state.scaler = scaler_after(c.rules.scaler, expected.state.scaler, true);
      run.check_memory(expected, sums);
      CHECK(run.seen().skipped == 1);
    }
  }
}

TEST_CASE("device: an empty rank still decides, and launches nothing else") {
  if (!usable()) return;
  StepCase c = small_case();
  c.parts = {{0, 0}};
  StepTruth truth(c);
  StepOnDevice run(truth);
  const std::vector<float> sums = sums_for(c, 1, 4);
  for (int step = 0; step < 3; ++step) {
    truth.step(sums, {});
    run.step(Way::two_passes, sums, {});
    run.check_found(truth, Way::two_passes);
    run.check_memory(truth, sums);
  }
  const auto before = device::device_calls().launches;
  run.step(Way::two_passes, sums, {});
  CHECK(device::device_calls().launches - before == 1);

  StepOnDevice empty(truth);  // no tensors that could count: no scalars either
  empty.begin(sums, {});
  empty.memory.num_sets = 0;
  empty.decide(all_parts, true);
  CHECK(empty.state.get()[0].halt == 0);
  CHECK(empty.seen().digest == ~empty.seen().not_digest);
  CHECK(empty.state.get()[0].applied_steps == truth.state.applied_steps + 1);
}

TEST_CASE("device: unsupported parameter formats are refused before any enqueue") {
  if (!usable()) return;
  StepCase c = small_case();
  StepTruth truth(c);
  StepOnDevice run(truth);
  device::StepRules rules = c.rules;
  rules.param_dtype = DType::e4m3;
  tests::expect_error(ErrorCode::invalid_argument, [&] { enqueue_cast(run.memory, rules); });
  rules.param_dtype = DType::fp16, rules.rounding = ParamRounding::stochastic;
  tests::expect_error(ErrorCode::invalid_argument,
                      [&] { enqueue_fused_update(run.memory, rules); });
}

}  // namespace step_decide_test
