// Plans on the streams of a device: what the plan orders happens in that order, and every wait of it is needed.

#include <doctest.h>

#include <algorithm>
#include <vector>

#include "cuda/runtime/stream_executor.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/runtime/plan_shapes.hpp"
#include "tests/cuda/sim/streams_support.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda;
using namespace zeroproof::sim_test;

/// order[0] counts the operations that ran; order[1 + n] is the n-th of them.
ZP_KERNEL append_kernel(unsigned* order, unsigned op) {
  if (device::threadIdx.x == 0) order[1 + device::atomicAdd(&order[0], 1U)] = op;
}

/// The places at which the operations of a plan ran on the device, by operation.
std::vector<std::size_t> places(const StepPlan& plan) {
  const std::size_t count = plan.ops.size();
  const auto bytes = static_cast<std::int64_t>((count + 1) * sizeof(unsigned));
  auto* const order = static_cast<unsigned*>(device::device_allocate(bytes));
  device::enqueue_fill(order, 0, bytes);
  StreamExecutor executor;
  executor.run(plan, [&](const PlanOp& op) {
    device::launch(append_kernel, 1, block, order, static_cast<unsigned>(&op - plan.ops.data()));
  });
  std::vector<unsigned> ran(count + 1);
  device::copy_to_host(ran.data(), order, bytes);
  device::device_release(order);
  REQUIRE(ran[0] == count);
  std::vector<std::size_t> place(count);
  for (std::size_t n = 0; n < count; ++n) place[ran[1 + n]] = n;
  return place;
}

bool touches(const std::vector<PlanBuffer>& buffers, const PlanBuffer& one) {
  return std::ranges::find(buffers, one) != buffers.end();
}

/// Whether one of two operations writes what the other one touches.
bool conflict(const PlanOp& a, const PlanOp& b) {
  const auto writes_into = [](const PlanOp& writer, const PlanOp& other) {
    return std::ranges::any_of(writer.writes, [&](const PlanBuffer& buffer) {
      return touches(other.reads, buffer) || touches(other.writes, buffer);
    });
  };
  return writes_into(a, b) || writes_into(b, a);
}

/// Whether two operations that touch the same memory ran in another order than the plan has.
bool disturbed(const StepPlan& plan) {
  const std::vector<std::size_t> place = places(plan);
  for (std::size_t later = 0; later < place.size(); ++later) {
    for (std::size_t first = 0; first < later; ++first) {
      if (place[first] > place[later] && conflict(plan.ops[first], plan.ops[later])) return true;
    }
  }
  return false;
}

bool disturbed_in_an_order(const StepPlan& plan) {
  return std::ranges::any_of(both_orders, [&](StreamOrder order) {
    const UseOrder use(order);
    return disturbed(plan);
  });
}

}  // namespace

TEST_CASE("stream executor: plans are not disturbed, and without any one of their waits they are") {
  std::int64_t waits = 0, found = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    const StepPlan plan = make_plan(tests::random_shape(seed));
    CHECK_FALSE(disturbed_in_an_order(plan));
    for (std::size_t op = 0; op < plan.ops.size(); ++op) {
      for (std::size_t wait = 0; wait < plan.ops[op].waits.size(); ++wait) {
        StepPlan without = plan;
        std::vector<int>& left = without.ops[op].waits;
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(wait));
        ++waits;
        found += disturbed_in_an_order(without) ? 1 : 0;
      }
    }
  }
  CHECK(waits > 50);
  CHECK(found == waits);
}

TEST_CASE("stream executor: what comes before and after a plan on its stream stays there") {
  const StepPlan plan = make_plan(tests::random_shape(3));
  for (const StreamOrder order : both_orders) {
    const UseOrder use(order);
    auto* const word = static_cast<unsigned*>(device::device_allocate(sizeof(unsigned)));
    auto* const seen = static_cast<unsigned*>(device::device_allocate(2 * sizeof(unsigned)));
    device::launch(store_kernel, 1, block, word, 1U);
    StreamExecutor executor;
    bool first_on_comm = true;
    executor.run(plan, [&](const PlanOp& op) {
      if (op.stream != PlanStream::comm) return;
      if (first_on_comm) device::launch(load_kernel, 1, block, word, seen);
      first_on_comm = false;
      device::launch(store_kernel, 1, block, word, 2U);
    });
    REQUIRE_FALSE(first_on_comm);
    device::launch(load_kernel, 1, block, word, seen + 1);
    unsigned values[2] = {};
    device::copy_to_host(values, seen, sizeof values);
    CHECK(values[0] == 1);
    CHECK(values[1] == 2);
    device::device_release(word);
    device::device_release(seen);
  }
}

TEST_CASE("stream executor: errors of operations come out, and a wait that nobody recorded for is one") {
  StepPlan plan = make_plan(tests::random_shape(3));
  StreamExecutor executor;
  CHECK_THROWS_AS(executor.run(plan, [](const PlanOp&) -> void { throw 7; }), int);
  plan.ops.front().waits.push_back(plan.num_events++);
  tests::expect_error(ErrorCode::internal, [&] { executor.run(plan, [](const PlanOp&) {}); });
}
