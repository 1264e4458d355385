// Enqueued steps without a wait in between, in every order of the simulated device: the host's
// bits.

#include <doctest.h>

#include <limits>

#include "cuda/device/runtime/device.hpp"
#include "tests/cuda/device/enqueued_support.hpp"
#include "tests/cuda/device/sim/streams_support.hpp"
#include "tests/cuda/formats/scales_support.hpp"

namespace steps_in_flight_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::sim_test;
using namespace zeroproof::tests;

constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

/// So many steps, the third one skipped. The host writes other values over the gradients of a step
/// as soon as it is enqueued.
void check_after(EnqueuedRank& rank, int steps) {
  CAPTURE(steps);
  HostGrads grads(rank, 2), same(rank, 2);
  rank.optimizer->load_state(rank.state());
  rank.on_host->load_state(rank.state());
  for (int step = 1; step <= steps; ++step) {
    const float factor = step == 3 ? no_number : 0.25F * static_cast<float>(step % 7 + 1);
    grads.fill(factor);
    grads.counted(step);
    rank.optimizer->enqueue_step(grads);
    grads.fill(1.0e4F);
    same.fill(factor);
    same.counted(step);
    rank.on_host->step(same);
  }
  const cuda::StepStatus status = rank.optimizer->wait();
  CHECK(status.steps == steps);
  CHECK(status.applied_steps == rank.on_host->applied_steps());
  CHECK(status.scaler == rank.on_host->loss_scaler());
  rank.check_same_state();
}

/// Every number of steps in flight, so the state after each step is compared.
void check_each_number(EnqueuedRank& rank) {
  for (const StreamOrder order : every_order) {
    CAPTURE(static_cast<int>(order));
    const UseOrder use(order);
    for (int steps = 1; steps <= 5; ++steps) check_after(rank, steps);
  }
}

}  // namespace

TEST_CASE("steps in flight: the state after each step has the host's bits, in every order") {
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    EnqueuedRank rank(graphs);
    rank.remake(2, graphs);
    check_each_number(rank);
  }
}

TEST_CASE("steps in flight: 8-bit parameters have the host's bits, in every order") {
  for (const ParamScaling& scaling : every_scaling()) {
    CAPTURE(name(scaling.recipe));
    EnqueuedRank rank(true, OnNonfinite::skip, block_tensors().params);
    rank.setup.param_dtype = DType::e4m3;
    rank.setup.scaling = scaling;
    rank.remake(2, true);
    for (const StreamOrder order : every_order) {
      CAPTURE(static_cast<int>(order));
      const UseOrder use(order);
      check_after(rank, 5);
    }
  }
}

TEST_CASE("steps in flight: offloaded state has the host's bits, in every order") {
  EnqueuedRank rank(true);
  rank.setup.offload.fraction = 0.5;
  rank.setup.offload.chunk_numel = 1000;
  rank.remake(2, true);
  check_each_number(rank);
}

TEST_CASE("steps in flight: more steps than status records, in every order") {
  EnqueuedRank rank(true, OnNonfinite::skip, {{"a", {70}}});
  rank.remake(2, true);
  for (const StreamOrder order : every_order) {
    CAPTURE(static_cast<int>(order));
    const UseOrder use(order);
    check_after(rank, cuda::EnqueuedOptimizer::most_enqueued + 7);
  }
}

TEST_CASE("steps in flight: ranks that copy from each other, in every order") {
  for (const StreamOrder order : every_order) {
    CAPTURE(static_cast<int>(order));
    const UseOrder use(order);
    run_grid({1, 3}, [&](const GridPlace& place) {
      for (const int stage : {0, 2}) {
        EnqueuedRank rank(true, OnNonfinite::skip, EnqueuedRank::usual(), place.comm,
                          Transport::copies);
        rank.setup.stage = stage;
        rank.remake(2, true);
        check_last_step(rank);
      }
    });
  }
}

TEST_CASE("steps in flight: early, the status of a step is complete when it is enqueued") {
  const UseOrder use(StreamOrder::early);
  EnqueuedRank rank(true);
  HostGrads grads(rank, 2);
  rank.optimizer->load_state(rank.state());
  for (int step = 1; step <= 5; ++step) {
    grads.fill(step == 3 ? no_number : 1.0F);
    rank.optimizer->enqueue_step(grads);
    const cuda::StepStatus status = rank.optimizer->status();
    CHECK(status.steps == step);
    CHECK(status.skipped == (step == 3));
    CHECK(status.applied_steps == (step < 3 ? step : step - 1));
  }
}

}  // namespace steps_in_flight_test
