// Enqueued steps: host calls, status, and halts.

#include <doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "tests/cuda/device/enqueued_support.hpp"
#include "tests/cuda/expect_error.hpp"

namespace enqueued_step_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda;
using namespace zeroproof::tests;

constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("enqueued steps: from the third on, no wait, no allocation, one graph") {
  if (!device::device_info().answers) return;
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    EnqueuedRank rank(graphs);
    DeviceGrads leaves(rank, 2);
    rank.optimizer->load_state(rank.state());
    rank.optimizer->enqueue_step(leaves);
    rank.optimizer->enqueue_step(leaves);
    for (int step = 3; step <= 6; ++step) {
      CAPTURE(step);
      const DeviceCalls before = device::device_calls();
      rank.optimizer->enqueue_step(leaves);
      const DeviceCalls calls = device::device_calls() - before;
      CHECK(rank.optimizer->calls() == calls);
      CHECK(calls.waits == 0);
      CHECK(calls.allocations == 0);
      CHECK(calls.graph_launches == (graphs ? 1 : 0));
      // The last fold measures G while it adds the gradients: no pass only reads it.
      CHECK(calls.launches == leaves.kernels() + (graphs ? 0 : 2));
      CHECK(calls.copies == 2);  // the status, and clearing the results
    }
    const StepStatus status = rank.optimizer->wait();
    CHECK(status.steps == 6);
    CHECK(status.applied_steps == 6);
    CHECK(!status.skipped);
  }
}

TEST_CASE("enqueued steps: host gradients are copied without a wait and reusable immediately") {
  if (!device::device_info().answers) return;
  EnqueuedRank rank(true);
  HostGrads leaves(rank, 2);
  rank.optimizer->load_state(rank.state());
  rank.on_host->load_state(rank.state());
  for (int step = 1; step <= 6; ++step) {
    CAPTURE(step);
    leaves.fill(static_cast<float>(step));
    rank.on_host->step(leaves);
    const DeviceCalls before = device::device_calls();
    rank.optimizer->enqueue_step(leaves);
    leaves.fill(no_number);
    const DeviceCalls calls = device::device_calls() - before;
    if (step < 3) continue;
    CHECK(calls.waits == 0);
    CHECK(calls.allocations == 0);
    CHECK(calls.copies == 4);  // two gradients, the status, and clearing the results
  }
  CHECK(rank.optimizer->wait().applied_steps == 6);
  rank.check_same_state();
}

TEST_CASE("enqueued steps: stage 3 gathers its persistent tensors as one batch, also in a graph") {
  if (!device::device_info().answers) return;
  std::vector<ParamSpec> params;
  for (int i = 0; i < 40; ++i) {
    params.push_back({"bias" + std::to_string(i), {i % 7}});
    params.push_back({"weight" + std::to_string(i), {300 + i}});
  }
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    EnqueuedRank rank(graphs, OnNonfinite::skip, params);
    rank.setup.stage = 3;
    rank.setup.persistent_numel = 6;
    rank.remake(1, graphs);
    DeviceGrads leaves(rank, 1);
    HostGrads same(rank, 1);
    rank.optimizer->load_state(rank.state());
    rank.on_host->load_state(rank.state());
    for (int step = 1; step <= 6; ++step) {
      CAPTURE(step);
      const DeviceCalls before = device::device_calls();
      rank.optimizer->enqueue_step(leaves);
      const DeviceCalls calls = device::device_calls() - before;
      rank.on_host->step(same);
      if (step < 3) continue;
      CHECK(calls.waits == 0);
      CHECK(calls.allocations == 0);
      CHECK(calls.graph_launches == (graphs ? 1 : 0));
      CHECK(calls.launches == leaves.kernels() + (graphs ? 0 : 3));  // the third is the batch
      CHECK(calls.copies == 2);
    }
    CHECK(rank.optimizer->wait().applied_steps == 6);
    rank.check_same_state();
  }
}

TEST_CASE("enqueued steps: tokens and missing gradients are counted on the host without a wait") {
  if (!device::device_info().answers) return;
  EnqueuedRank rank(true);
  rank.setup.loss_reduction = LossReduction::tokens;
  rank.setup.missing_grad = MissingGrad::skip;
  rank.remake(1, true);
  DeviceGrads leaves(rank, 1);
  HostGrads same(rank, 1);
  rank.optimizer->load_state(rank.state());
  rank.on_host->load_state(rank.state());
  for (int step = 1; step <= 70; ++step) {
    CAPTURE(step);
    leaves.counted(step);
    same.counted(step);
    const DeviceCalls before = device::device_calls();
    rank.optimizer->enqueue_step(leaves);
    const DeviceCalls calls = device::device_calls() - before;
    if (step > 2) CHECK(calls.copies == 4);  // divisor, bits of tensors, results, status
    if (step > 2 && step < 60) CHECK(calls.waits == 0);
    rank.on_host->step(same);
  }
  CHECK(rank.optimizer->wait().applied_steps == 70);
  rank.check_same_state();
}

TEST_CASE("enqueued steps: status is that of the last finished step, and does not wait") {
  if (!device::device_info().answers) return;
  EnqueuedRank rank(true);
  DeviceGrads leaves(rank, 1);
  rank.optimizer->load_state(rank.state(41));
  CHECK(rank.optimizer->status().steps == 0);
  CHECK(rank.optimizer->status().applied_steps == 41);
  for (int step = 0; step < 3; ++step) rank.optimizer->enqueue_step(leaves);
  const std::int64_t waits = device::device_calls().waits;
  const std::int64_t seen = rank.optimizer->status().steps;
  CHECK(seen >= 0);
  CHECK(seen <= 3);
  CHECK(device::device_calls().waits == waits);
  CHECK(rank.optimizer->wait().applied_steps == 44);
  CHECK(rank.optimizer->status().steps == 3);
}

TEST_CASE("enqueued steps: a thousand and more, through a schedule, are the host's steps") {
  if (!device::device_info().answers) return;
  constexpr int steps = 1100;  // more than the rows of the device's schedule table
  EnqueuedRank rank(true);
  DeviceGrads leaves(rank, 1);
  HostGrads same(rank, 1);
  rank.optimizer->load_state(rank.state());
  rank.on_host->load_state(rank.state());
  for (int step = 0; step < steps; ++step) {
    const float scale = step % 97 == 5 ? no_number : 1.0F + static_cast<float>(step % 13) * 0.125F;
    leaves.fill(scale);
    same.fill(scale);
    rank.optimizer->enqueue_step(leaves);
    rank.on_host->step(same);
  }
  const StepStatus status = rank.optimizer->wait();
  CHECK(status.steps == steps);
  CHECK(status.applied_steps == rank.on_host->applied_steps());
  CHECK(status.applied_steps < steps);
  CHECK(status.scaler == rank.on_host->loss_scaler());
  rank.check_same_state();
}

TEST_CASE("enqueued steps: a halt is sticky, and loading a state ends it") {
  if (!device::device_info().answers) return;
  EnqueuedRank rank(true, OnNonfinite::error);
  DeviceGrads leaves(rank, 1);
  HostGrads same(rank, 1);
  rank.optimizer->load_state(rank.state());
  rank.on_host->load_state(rank.state());
  for (int step = 0; step < 3; ++step) {
    rank.optimizer->enqueue_step(leaves);
    rank.on_host->step(same);
  }
  leaves.fill(no_number);
  rank.optimizer->enqueue_step(leaves);
  leaves.fill(1.0F);
  rank.optimizer->enqueue_step(leaves);  // the host has not polled yet
  expect_error(ErrorCode::nonfinite, [&] { rank.optimizer->wait(); });
  expect_error(ErrorCode::nonfinite, [&] { rank.optimizer->enqueue_step(leaves); });
  expect_error(ErrorCode::nonfinite, [&] { rank.optimizer->status(); });
  rank.check_same_state();
  rank.optimizer->load_state(rank.state());
  rank.optimizer->enqueue_step(leaves);
  CHECK(rank.optimizer->wait().applied_steps == 1);
}

TEST_CASE("enqueued steps: steps continue from a state loaded between replays") {
  if (!device::device_info().answers) return;
  EnqueuedRank rank(true);
  DeviceGrads leaves(rank, 2);
  HostGrads same(rank, 2);
  for (const std::int64_t applied : {0, 7}) {
    rank.optimizer->load_state(rank.state(applied));
    rank.on_host->load_state(rank.state(applied));
    for (int step = 0; step < 4; ++step) {
      leaves.fill(0.5F + static_cast<float>(step));
      same.fill(0.5F + static_cast<float>(step));
      rank.optimizer->enqueue_step(leaves);
      rank.on_host->step(same);
    }
    CHECK(rank.optimizer->wait().applied_steps == applied + 4);
    rank.check_same_state();
  }
}

TEST_CASE("device steps phase by phase: an externally written G is measured again") {
  if (!device::device_info().answers) return;
  EnqueuedRank rank(false);
  DeviceGrads leaves(rank, 2);
  rank.optimizer->load_state(rank.state());
  const auto begin = [&](float factor) {
    leaves.fill(factor);
    rank.optimizer->run_phase(Phase::prepare, leaves);
    rank.optimizer->run_phase(Phase::reduce, leaves);
  };
  const auto write_first = [&](float value) {
    static_cast<float*>(rank.optimizer->exposed(Phase::reduce).front().view.data)[0] = value;
    rank.optimizer->overwritten(Phase::reduce);
  };
  const auto skips = [&] {
    rank.optimizer->run_phase(Phase::unscale, leaves);
    return rank.optimizer->skipped();
  };
  begin(1.0F);
  CHECK(!skips());
  begin(1.0F);
  write_first(no_number);
  CHECK(skips());
  begin(no_number);
  CHECK(skips());
  begin(no_number);
  const TensorView sum = rank.optimizer->exposed(Phase::reduce).front().view;
  for (std::int64_t i = 0; i < sum.numel; ++i) static_cast<float*>(sum.data)[i] = 0.5F;
  rank.optimizer->overwritten(Phase::reduce);
  CHECK(!skips());
  begin(no_number);
  leaves.fill(1.0F);
  rank.optimizer->run_phase(Phase::reduce, leaves);  // once more
  CHECK(!skips());
}

TEST_CASE("enqueued steps: invalid calls are refused") {
  if (!device::device_info().answers) return;
  EnqueuedRank rank(false);
  expect_error(ErrorCode::invalid_argument,
               [&] { make_enqueued_optimizer(rank.setup, false, true); });
  const auto phases = make_enqueued_optimizer(rank.setup, false, false);
  DeviceGrads leaves(rank, 1);
  phases->load_state(rank.state());
  expect_error(ErrorCode::invalid_argument, [&] { phases->enqueue_step(leaves); });
  rank.on_host->load_state(rank.state());
  expect_error(ErrorCode::invalid_argument, [&] { rank.on_host->step(leaves); });
}

}  // namespace enqueued_step_test
