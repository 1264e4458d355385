#include "cuda/optimizer/overlap/plan_audit.hpp"

#include <doctest.h>

#include <algorithm>
#include <utility>

#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/overlap/plan_shapes.hpp"

namespace zeroproof::tests::plan_audit_test {
namespace {

using cuda::audit_plan;
using cuda::BufferKind;
using cuda::make_plan;
using cuda::OpKind;
using cuda::PlanBuffer;
using cuda::PlanFault;
using cuda::PlanOp;
using cuda::PlanStream;
using cuda::StepPlan;

const PlanBuffer grad{BufferKind::unit_grad, 0};
const PlanBuffer param{BufferKind::unit_param, 0};

PlanOp op(OpKind kind, PlanStream stream, std::vector<PlanBuffer> reads,
          std::vector<PlanBuffer> writes, std::vector<int> waits = {}, int records = -1) {
  const PlanBuffer target =
      writes.empty() ? (reads.empty() ? param : reads.front()) : writes.front();
  return {kind, stream, target, std::move(reads), std::move(writes), std::move(waits), records};
}
constexpr auto compute = PlanStream::compute;
constexpr auto comm = PlanStream::comm;

/// A correct plan of one gradient.
StepPlan small_plan() {
  StepPlan plan;
  plan.ops = {
      op(OpKind::allocate, compute, {}, {grad}), op(OpKind::backward, compute, {param}, {grad}),
      op(OpKind::ready, compute, {grad}, {grad}, {}, 0),
      op(OpKind::reduce, comm, {grad}, {}, {0}, 1), op(OpKind::free, compute, {}, {grad}, {1})};
  plan.resident = {param};
  plan.num_events = 2;
  return plan;
}

PlanFault fault_of(const StepPlan& plan) {
  const auto finding = audit_plan(plan);
  REQUIRE(finding);
  CHECK_FALSE(finding->text.empty());
  expect_error(ErrorCode::internal, [&] { cuda::require_sound(plan); });
  return finding->fault;
}

template <class Change>
PlanFault fault_after(Change&& change) {
  StepPlan plan = small_plan();
  change(plan);
  return fault_of(plan);
}

TEST_CASE("plan audit: every kind of fault is found in a small plan and named") {
  CHECK_FALSE(audit_plan(small_plan()));
  CHECK_FALSE(audit_plan({}));
  const auto dropped = [](std::size_t i) {
    return
        [i](StepPlan& plan) { plan.ops.erase(plan.ops.begin() + static_cast<std::ptrdiff_t>(i)); };
  };
  CHECK(fault_after(dropped(0)) == PlanFault::not_alive);
  CHECK(fault_after(dropped(4)) == PlanFault::leak);
  CHECK(fault_after([](StepPlan& plan) { plan.ops[3].waits = {}; }) == PlanFault::unordered);
  CHECK(fault_after([](StepPlan& plan) { plan.ops[4].waits = {}; }) == PlanFault::unordered);
  CHECK(fault_after([](StepPlan& plan) { plan.ops[4].waits = {7}; }) == PlanFault::deadlock);
  CHECK(fault_after([](StepPlan& plan) { plan.ops[3].records = -1; }) == PlanFault::deadlock);
  CHECK(fault_after([](StepPlan& plan) { plan.ops[2].waits = {1}; }) == PlanFault::deadlock);
  CHECK(fault_after([](StepPlan& plan) { plan.ops[1].waits = {0}; }) == PlanFault::deadlock);
  CHECK(fault_after([](StepPlan& plan) { plan.ops[1].records = 1; }) == PlanFault::twice_recorded);
  CHECK(fault_after([](StepPlan& plan) { plan.ops.insert(plan.ops.begin(), plan.ops[0]); }) ==
        PlanFault::alive);
  CHECK(fault_after([](StepPlan& plan) {
          plan.ops.push_back(op(OpKind::free, compute, {}, {grad}));
        }) == PlanFault::not_alive);
  CHECK(fault_after([](StepPlan& plan) { plan.ops.insert(plan.ops.begin() + 4, plan.ops[1]); }) ==
        PlanFault::unordered);
  CHECK(fault_after([](StepPlan& plan) { plan.ops.insert(plan.ops.begin() + 3, plan.ops[1]); }) ==
        PlanFault::unordered);
  CHECK(fault_after([](StepPlan& plan) { plan.resident = {}; }) == PlanFault::not_alive);
  CHECK(fault_after([](StepPlan& plan) {
          plan.ops.push_back(op(OpKind::gather, compute, {}, {param}));
        }) == PlanFault::not_alive);
}

TEST_CASE("faults that need a single stream") {
  const auto serial = [](auto&& change) {
    StepPlan plan = small_plan();
    for (PlanOp& one : plan.ops) one.stream = compute;
    change(plan);
    return fault_of(plan);
  };
  CHECK(serial([](StepPlan& plan) { plan.ops.erase(plan.ops.begin() + 1); }) ==
        PlanFault::unwritten);
  CHECK(serial([](StepPlan& plan) { std::swap(plan.ops[1], plan.ops[2]); }) ==
        PlanFault::unwritten);
  CHECK(serial([](StepPlan& plan) { plan.ops.insert(plan.ops.begin() + 3, plan.ops[1]); }) ==
        PlanFault::sealed);
  CHECK(serial([](StepPlan& plan) {
          plan.ops.erase(plan.ops.begin() + 2);
          plan.ops[2].waits = {};
        }) == PlanFault::not_ready);
  CHECK(serial([](StepPlan& plan) { std::swap(plan.ops[3], plan.ops[4]); }) == PlanFault::deadlock);
}

TEST_CASE(
    "plan audit: a wait enqueued before its event is recorded is late, even where threads would "
    "get "
    "through") {
  StepPlan plan = small_plan();
  std::rotate(plan.ops.begin(), plan.ops.begin() + 3, plan.ops.begin() + 4);
  CHECK(fault_of(plan) == PlanFault::late_event);
}

TEST_CASE("plan audit: order is followed through the other stream") {
  StepPlan plan = small_plan();
  // free is ordered behind backward through the reduction only: compute -> comm -> compute
  plan.ops[1].stream = comm;
  plan.ops[1].waits = {2};
  plan.ops[0].records = 2;
  plan.ops[2].stream = comm;
  plan.num_events = 3;
  CHECK_FALSE(audit_plan(plan));
  plan.ops[1].waits = {};
  CHECK(fault_of(plan) == PlanFault::unordered);
}

TEST_CASE("plan audit: of several earlier operations the unordered one is named") {
  StepPlan plan = small_plan();
  plan.ops.insert(plan.ops.begin() + 4,
                  op(OpKind::reduce, comm, {grad}, {}));  // the free stream waits for the other one
  const auto finding = audit_plan(plan);
  REQUIRE(finding);
  CHECK(finding->fault == PlanFault::unordered);
  CHECK(finding->first == 4);
  CHECK(finding->second == 5);
}

TEST_CASE("plan audit: real plans pass, and fail without any one of their waits") {
  std::int64_t removed = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const StepPlan plan = make_plan(random_shape(seed));
    const auto finding = audit_plan(plan);
    const std::string text = finding ? finding->text : "";
    CAPTURE(text);
    REQUIRE_FALSE(finding);
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      for (std::size_t w = 0; w < plan.ops[i].waits.size(); ++w) {
        StepPlan tampered = plan;
        std::vector<int>& waits = tampered.ops[i].waits;
        waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
        const auto found = audit_plan(tampered);
        CAPTURE(i);
        REQUIRE(found);
        REQUIRE(found->fault == PlanFault::unordered);
        REQUIRE(found->second >= static_cast<int>(i));
        ++removed;
      }
    }
  }
  CHECK(removed > 2000);
}

/// Operations whose omission the audit cannot detect: the rest is a valid plan of another
/// computation.
bool may_be_left_out(const PlanOp& one) {
  return one.kind == OpKind::forward || one.kind == OpKind::check_version ||
         one.kind == OpKind::reduce || one.kind == OpKind::backward || one.kind == OpKind::ready;
}

TEST_CASE("plan audit: real plans fail without an allocation, a gather or a release") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const StepPlan plan = make_plan(random_shape(seed));
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      if (may_be_left_out(plan.ops[i])) continue;
      StepPlan tampered = plan;
      tampered.ops.erase(tampered.ops.begin() + static_cast<std::ptrdiff_t>(i));
      CAPTURE(i);
      REQUIRE(audit_plan(tampered));
    }
  }
}

bool touches(const PlanOp& one, const PlanBuffer& buffer) {
  return std::count(one.writes.begin(), one.writes.end(), buffer) > 0;
}
bool conflict(const PlanOp& a, const PlanOp& b) {
  const auto writes_of = [](const PlanOp& from, const PlanOp& to) {
    return std::any_of(from.writes.begin(), from.writes.end(), [&](const PlanBuffer& buffer) {
      return touches(to, buffer) || std::count(to.reads.begin(), to.reads.end(), buffer) > 0;
    });
  };
  return writes_of(a, b) || writes_of(b, a);
}

/// Two contributions to the same buffers, which are merely computed in another order.
bool accumulate(const PlanOp& a, const PlanOp& b) {
  return a.kind == b.kind && (a.kind == OpKind::backward || a.kind == OpKind::ready);
}

TEST_CASE("plan audit: neighbouring operations on the same buffer cannot be swapped") {
  std::int64_t swapped = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const StepPlan plan = make_plan(random_shape(seed));
    for (std::size_t i = 0; i + 1 < plan.ops.size(); ++i) {
      if (!conflict(plan.ops[i], plan.ops[i + 1]) || accumulate(plan.ops[i], plan.ops[i + 1]))
        continue;
      StepPlan tampered = plan;
      std::swap(tampered.ops[i], tampered.ops[i + 1]);
      CAPTURE(i);
      REQUIRE(audit_plan(tampered));
      ++swapped;
    }
  }
  CHECK(swapped > 1000);
}

}  // namespace
}  // namespace zeroproof::tests::plan_audit_test
