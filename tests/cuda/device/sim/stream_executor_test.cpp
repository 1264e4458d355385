// Plans on the streams of a device: work around them, and errors. Their order is tested in
// device/plan_streams_test.

#include <doctest.h>

#include <vector>

#include "cuda/optimizer/overlap/stream_executor.hpp"
#include "tests/cuda/device/sim/streams_support.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/overlap/plan_shapes.hpp"

namespace stream_executor_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda;
using namespace zeroproof::sim_test;

}  // namespace

TEST_CASE("stream executor: work before and after a plan on its stream stays ordered") {
  StepPlan plan = make_plan(tests::random_shape(3));
  for (PlanOp& op : plan.ops)
    op.waits.clear();  // no wait of the plan orders it after or before either
  for (const StreamOrder order : every_order) {
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
    device::stage_to_host(values, seen, sizeof values);
    device::wait_for_stream();
    CHECK(values[0] == 1);
    CHECK(values[1] == 2);
    device::device_release(word);
    device::device_release(seen);
  }
}

TEST_CASE("stream executor: errors of operations propagate, and an unrecorded wait is one") {
  StepPlan plan = make_plan(tests::random_shape(3));
  StreamExecutor executor;
  CHECK_THROWS_AS(executor.run(plan, [](const PlanOp&) -> void { throw 7; }), int);
  plan.ops.front().waits.push_back(plan.num_events++);
  tests::expect_error(ErrorCode::internal, [&] { executor.run(plan, [](const PlanOp&) {}); });
}

}  // namespace stream_executor_test
