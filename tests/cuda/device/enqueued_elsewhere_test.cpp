// Enqueued steps with offloaded state: the host's part is between two graphs, which contain the
// rest.

#include <doctest.h>

#include <limits>
#include <vector>

#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "tests/cuda/device/enqueued_support.hpp"
#include "tests/cuda/expect_error.hpp"

namespace enqueued_elsewhere_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda;
using namespace zeroproof::tests;

constexpr float infinity = std::numeric_limits<float>::infinity();

Offload offload(double fraction, OffloadPlace place, bool grads) {
  return {fraction, OffloadOrder::flat, place, 1000, true, {}, grads};
}

}  // namespace

TEST_CASE("enqueued offload: the bits of a host that offloads nothing, with a skipped step") {
  if (!device::device_info().answers) return;
  for (const bool graphs : {false, true}) {
    for (const double fraction : {0.3, 1.0}) {
      for (const OffloadPlace place : {OffloadPlace::host, OffloadPlace::file}) {
        for (const bool grads : {false, true}) {
          CAPTURE(graphs);
          CAPTURE(fraction);
          CAPTURE(grads);
          EnqueuedRank rank(graphs);
          rank.setup.offload = offload(fraction, place, grads);
          rank.setup.missing_grad = grads ? MissingGrad::skip : MissingGrad::zero;
          rank.remake(2, graphs);
          check_offloaded_steps(rank, graphs);
        }
      }
    }
  }
}

TEST_CASE(
    "enqueued offload: a halted step changes nothing on either side, and loading a state "
    "ends the halt") {
  if (!device::device_info().answers) return;
  EnqueuedRank rank(true, OnNonfinite::error);
  rank.setup.offload = offload(0.5, OffloadPlace::host, true);
  rank.remake(1, true);
  HostGrads leaves(rank, 1);
  rank.optimizer->load_state(rank.state());
  rank.on_host->load_state(rank.state());
  for (int step = 0; step < 3; ++step) {
    rank.optimizer->enqueue_step(leaves);
    rank.on_host->step(leaves);
  }
  leaves.fill(infinity);
  rank.optimizer->enqueue_step(leaves);
  expect_error(ErrorCode::nonfinite, [&] { rank.optimizer->wait(); });
  expect_error(ErrorCode::nonfinite, [&] { rank.optimizer->enqueue_step(leaves); });
  rank.check_same_state();
  leaves.fill(1.0F);
  rank.optimizer->load_state(rank.state());
  rank.optimizer->enqueue_step(leaves);
  CHECK(rank.optimizer->wait().applied_steps == 1);
}

TEST_CASE("enqueued offload: offloaded gradients use no device memory and no slot") {
  if (!device::device_info().answers) return;
  MemoryUse use[2];
  for (const bool grads : {false, true}) {
    EnqueuedRank rank(true);
    rank.setup.offload = offload(1, OffloadPlace::file, grads);
    rank.remake(2, true);
    use[grads ? 1 : 0] = rank.optimizer->memory();
  }
  const auto kind = static_cast<std::size_t>(MemoryClass::grad_sum);
  CHECK(use[0].now[kind] > 0);
  CHECK(use[1].now[kind] == 0);
  CHECK(use[1].offloaded_host == use[0].offloaded_host + use[0].now[kind] - 2 * 4 * 1000);
  CHECK(use[1].offloaded_file == use[0].offloaded_file);
}

}  // namespace enqueued_elsewhere_test
