#include "cuda/optimizer/overlap/step_plan.hpp"

#include <doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/overlap/plan_shapes.hpp"

namespace zeroproof::tests::step_plan_test {
namespace {

using cuda::BufferKind;
using cuda::LayerSchedule;
using cuda::make_plan;
using cuda::OpKind;
using cuda::PlanStream;
using cuda::StepPlan;

TEST_CASE("a plan with overlap, written out") {
  // bucket 0 is in unit 0, bucket 1 in units 0 and 1, bucket 2 in unit 1
  const LayerSchedule shape{neighbours({20, 30}), {0, 1}, neighbours({10, 20, 20}), 3, true, {}};
  CHECK(text_of(make_plan(shape)) ==
        "allocate of parameters of unit 0 >0\n"
        "  gather of unit 0 <0 >1\n"
        "allocate of parameters of unit 1 >2\n"
        "  gather of unit 1 <2 >3\n"
        "check_version of unit 0 <1\n"
        "forward of unit 0\n"
        "release of parameters of unit 0\n"
        "allocate of parameters of unit 0 >4\n"
        "  gather of unit 0 <4 >5\n"
        "check_version of unit 1 <3\n"
        "forward of unit 1\n"
        "allocate of gradient of unit 1\n"
        "check_version of unit 1\n"
        "backward of unit 1\n"
        "release of parameters of unit 1\n"
        "allocate of gradient of bucket 1\n"
        "ready of unit 1 >6\n"
        "  reduce of bucket 2 <6 >7\n"
        "allocate of gradient of unit 0\n"
        "check_version of unit 0 <5\n"
        "backward of unit 0\n"
        "release of parameters of unit 0\n"
        "ready of unit 0 >8\n"
        "  reduce of bucket 1 <8 >9\n"
        "  reduce of bucket 0 >10\n"
        "free of gradient of unit 1 <7\n"
        "free of gradient of bucket 1 <9\n"
        "free of gradient of unit 0 <10\n");
}

TEST_CASE(
    "a plan without overlap, written out: a tied unit is gathered for every visit but kept at the "
    "turn") {
  const LayerSchedule shape{neighbours({20, 30}), {0, 1, 0}, neighbours({20, 30}), 3, false, {}};
  CHECK(text_of(make_plan(shape)) ==
        "allocate of parameters of unit 0\n"
        "gather of unit 0\n"
        "check_version of unit 0\n"
        "forward of unit 0\n"
        "release of parameters of unit 0\n"
        "allocate of parameters of unit 1\n"
        "gather of unit 1\n"
        "check_version of unit 1\n"
        "forward of unit 1\n"
        "release of parameters of unit 1\n"
        "allocate of parameters of unit 0\n"
        "gather of unit 0\n"
        "check_version of unit 0\n"
        "forward of unit 0\n"
        "allocate of gradient of unit 0\n"
        "check_version of unit 0\n"
        "backward of unit 0\n"
        "release of parameters of unit 0\n"
        "allocate of parameters of unit 1\n"
        "gather of unit 1\n"
        "allocate of gradient of unit 1\n"
        "check_version of unit 1\n"
        "backward of unit 1\n"
        "ready of unit 1\n"
        "reduce of bucket 1\n"
        "free of gradient of unit 1\n"
        "release of parameters of unit 1\n"
        "allocate of parameters of unit 0\n"
        "gather of unit 0\n"
        "check_version of unit 0\n"
        "backward of unit 0\n"
        "ready of unit 0\n"
        "reduce of bucket 0\n"
        "free of gradient of unit 0\n"
        "release of parameters of unit 0\n");
}

TEST_CASE(
    "a plan of stage 2, written out: nothing is gathered, gradients live for two backward visits") {
  const LayerSchedule shape{neighbours({8, 8, 8}), {0, 1, 2}, neighbours({8, 8, 8}), 2, true, {}};
  const StepPlan plan = make_plan(shape);
  CHECK(plan.resident.size() == 3);
  CHECK(text_of(plan) ==
        "forward of unit 0\n"
        "forward of unit 1\n"
        "forward of unit 2\n"
        "allocate of gradient of unit 2\n"
        "backward of unit 2\n"
        "ready of unit 2 >0\n"
        "  reduce of bucket 2 <0 >1\n"
        "allocate of gradient of unit 1\n"
        "backward of unit 1\n"
        "ready of unit 1 >2\n"
        "  reduce of bucket 1 <2 >3\n"
        "free of gradient of unit 2 <1\n"
        "allocate of gradient of unit 0\n"
        "backward of unit 0\n"
        "ready of unit 0 >4\n"
        "  reduce of bucket 0 <4 >5\n"
        "free of gradient of unit 1 <3\n"
        "free of gradient of unit 0 <5\n");
}

/// Required operations of any plan, counted in any order.
void check_contents(const LayerSchedule& shape, const StepPlan& plan) {
  std::vector<int> forward, backward;
  std::map<int, int> reduced;
  std::set<int> alive;
  std::vector<int> buckets;
  for (const cuda::PlanOp& op : plan.ops) {
    const int index = op.target.index;
    const bool moves = op.kind == OpKind::gather || op.kind == OpKind::reduce;
    REQUIRE((op.stream == PlanStream::comm) == (moves && shape.overlap));
    if (op.kind == OpKind::forward) forward.push_back(index);
    if (op.kind == OpKind::backward) backward.push_back(index);
    if (op.kind == OpKind::reduce) ++reduced[index];
    if (op.kind == OpKind::reduce) buckets.push_back(index);
    if (op.target.kind != BufferKind::unit_param) continue;
    if (op.kind == OpKind::allocate) REQUIRE(alive.insert(index).second);
    if (op.kind == OpKind::release) REQUIRE(alive.erase(index) == 1);
    REQUIRE(alive.size() <= (shape.overlap ? 2U : 1U));
    const bool resident =
        std::find(plan.resident.begin(), plan.resident.end(), op.target) != plan.resident.end();
    if (op.kind == OpKind::forward) REQUIRE((resident || alive.count(index) == 1));
  }
  CHECK(forward == shape.visits);
  CHECK(backward == std::vector<int>(shape.visits.rbegin(), shape.visits.rend()));
  CHECK(reduced.size() == shape.buckets.size());
  CHECK(buckets.size() == shape.buckets.size());
  CHECK(alive.empty());
  for (const auto& resident : plan.resident) {
    const bool persistent = shape.persistent[resident.index];
    CHECK((shape.stage == 2 || persistent));
  }
}

TEST_CASE("step plan: any plan has its visits, gathers and reductions") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const LayerSchedule shape = random_shape(seed);
    check_contents(shape, make_plan(shape));
  }
}

TEST_CASE("without tied units buckets are reduced from the last to the first") {
  const LayerSchedule shape{
      neighbours({5, 1, 30, 4, 9}), {0, 1, 2, 3, 4}, neighbours({3, 3, 3, 20, 11, 9}), 3, true, {}};
  std::vector<int> order;
  for (const cuda::PlanOp& op : make_plan(shape).ops) {
    if (op.kind == OpKind::reduce) order.push_back(op.target.index);
  }
  CHECK(order == std::vector<int>{5, 4, 3, 2, 1, 0});
}

TEST_CASE("a model without elements has an empty plan, an empty unit may stay unvisited") {
  CHECK(make_plan({{}, {}, {}, 3, true, {}}).ops.empty());
  const LayerSchedule shape{neighbours({0, 4}), {1}, neighbours({4}), 3, true, {}};
  CHECK(make_plan(shape).ops.size() == 11);
}

TEST_CASE("step plan: an invalid shape is an error") {
  const LayerSchedule good{neighbours({4, 4}), {0, 1}, neighbours({8}), 3, true, {}};
  const auto refused = [&](auto&& change) {
    LayerSchedule shape = good;
    change(shape);
    expect_error(ErrorCode::invalid_argument, [&] { static_cast<void>(make_plan(shape)); });
  };
  CHECK(make_plan(good).ops.size() > 10);
  refused([](LayerSchedule& shape) { shape.stage = 1; });
  refused([](LayerSchedule& shape) { shape.stage = 4; });
  refused([](LayerSchedule& shape) { shape.visits = {0}; });
  refused([](LayerSchedule& shape) { shape.visits = {0, 2}; });
  refused([](LayerSchedule& shape) { shape.visits = {0, 1, -1}; });
  refused([](LayerSchedule& shape) { shape.persistent = {true}; });
  refused([](LayerSchedule& shape) { shape.units[1].begin = 5; });
  refused([](LayerSchedule& shape) { shape.units[0] = {1, 4}; });
  refused([](LayerSchedule& shape) { shape.buckets = neighbours({4}); });
  refused([](LayerSchedule& shape) { shape.buckets = neighbours({4, 0, 4}); });
  refused([](LayerSchedule& shape) { shape.buckets = {{0, 9}, {9, 8}}; });
}

}  // namespace
}  // namespace zeroproof::tests::step_plan_test
