// The norm of a step over blocks, pieces and ranks, and its found_inf. Runs on a GPU and, in
// tests/cuda/device/sim, on the simulated device.

#include <doctest.h>

#include <vector>

#include "cuda/device/runtime/runtime.hpp"
#include "tests/cuda/device/step_passes_support.hpp"

namespace step_norm_test {

using namespace zeroproof;
using namespace zeroproof::device_test;

TEST_CASE("device: sums of several ranks, with carries still in them, and a flag of another rank") {
  if (!usable()) return;
  const StepCase c = small_case();
  StepTruth truth(c);
  StepOnDevice run(truth);
  const std::vector<float> sums = sums_for(c, 1, 4);
  run.begin(sums, {});
  run.decide(device::decide_scalars);
  enqueue_finite_norm(run.memory, run.rules);
  device::StepFound found = run.seen();
  oracle_sum all;
  oracle_norm_clear(&all);
  for (int rank = 0; rank < 5; ++rank) oracle_norm_add_limbs(&all, found.sums);
  for (std::uint64_t& word : found.sums) word *= 5;
  run.set_found(found);
  run.decide(device::decide_scaler | device::decide_norm | device::decide_clip);
  CHECK(tests::bits(run.seen().grad_norm) == tests::bits(oracle_norm_finish(&all)));
  float coef = 0;
  oracle_clip_coef(oracle_norm_finish(&all), 1, *c.rules.hyper.max_norm, &coef);
  CHECK(tests::bits(run.seen().clip_coef) == tests::bits(coef));
  CHECK(run.state.get()[0].applied_steps == 0);
}

TEST_CASE("nightly: device: a norm of enough pieces for carries between them") {
  if (!usable()) return;
  for (const NormForm form : {NormForm::chunk1024, NormForm::exact, NormForm::inf, NormForm::one}) {
    CAPTURE(static_cast<int>(form));
    StepCase c = small_case();
    c.rules.hyper.norm = form;
    c.parts.assign(13000,
                   {1, 0, true, 0});  // 24 simulated blocks of 8 warps process more than 64 each
    for (std::size_t i = 0; i < c.parts.size(); ++i) c.parts[i].counted = i % 7 != 0;
    for (const Way way : {Way::phases, Way::two_passes, Way::of_ranks}) {
      StepTruth truth(c);
      StepOnDevice run(truth);
      std::vector<float> sums = tests::random_values(c.shard_numel(), 5, 60);
      truth.step(sums, {});
      run.step(way, sums, {});
      run.check_found(truth, way);
    }
  }
}

TEST_CASE("device: a product that overflows, of a gradient that is finite") {
  if (!usable()) return;
  StepCase c = small_case();
  c.rules.scaler.log2_initial = -3, c.rules.scaler.log2_min = -4;
  c.divisor = 1;
  c.parts[2].counted = false;
  for (const Way way : {Way::phases, Way::two_passes, Way::of_ranks}) {
    StepTruth truth(c);
    StepOnDevice run(truth);
    std::vector<float> sums = sums_for(c, 1, -3);
    sums[truth.begin(2)] = 0x1p126F;  // found nevertheless
    truth.step(sums, {});
    run.step(way, sums, {});
    CHECK(truth.found.skipped == 1);
    run.check_found(truth, way);
    run.check_memory(truth, way != Way::phases ? sums : truth.b[grad]);
  }
}

}  // namespace step_norm_test
