// The plans of an overlapped step on the streams and events of a device: the audit's results hold
// there, and every wait that it requires is needed. Skipped without a device; tests/cuda/device/sim
// runs the same file on the simulated device.

#include <doctest.h>

#include <algorithm>
#include <cstdio>

#include "common/base/philox.hpp"
#include "cuda/optimizer/overlap/plan_audit.hpp"
#include "tests/cuda/device/plan_watch.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "tests/cuda/optimizer/overlap/plan_shapes.hpp"

namespace plan_streams_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda;
using device_test::PlanWatch;
using device_test::usable;

constexpr PlanStream streams[] = {PlanStream::compute, PlanStream::comm};

std::vector<double> no_delay(const StepPlan& plan) {
  return std::vector<double>(plan.ops.size(), 0.0);
}

}  // namespace

TEST_CASE("device: no operation of a plan is disturbed under any timing") {
  if (!usable()) return;
  PlanWatch watch;
  std::int64_t ops = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const StepPlan plan = make_plan(tests::random_shape(seed));
    REQUIRE_FALSE(audit_plan(plan));
    const Philox random(seed, 78);
    std::uint64_t drawn = 0;
    for (const bool delayed : {false, true}) {
      for (const PlanStream first : streams) {
        std::vector<double> shares = no_delay(plan);
        for (double& share : shares) {
          if (delayed && random.below(drawn += 2, 3) == 0)
            share = 0.01 * static_cast<double>(random.below(drawn += 2, 8));
        }
        const std::vector<bool> disturbed = watch.disturbed(plan, shares, first);
        CHECK(std::count(disturbed.begin(), disturbed.end(), true) == 0);
      }
    }
    ops += static_cast<std::int64_t>(plan.ops.size());
  }
  std::printf("%lld operations in 40 plans, 4 timings each: none disturbed\n",
              static_cast<long long>(ops));
}

TEST_CASE("device: removing any wait of a plan disturbs it where the audit predicts") {
  if (!usable()) return;
  PlanWatch watch;
  std::int64_t removed = 0, seen = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const StepPlan whole = make_plan(tests::random_shape(seed));
    for (std::size_t i = 0; i < whole.ops.size(); ++i) {
      for (std::size_t w = 0; w < whole.ops[i].waits.size(); ++w) {
        CAPTURE(seed);
        CAPTURE(i);
        CAPTURE(w);
        StepPlan plan = whole;
        plan.ops[i].waits.erase(plan.ops[i].waits.begin() + static_cast<std::ptrdiff_t>(w));
        const auto finding = audit_plan(plan);
        REQUIRE(finding);
        REQUIRE(finding->fault == PlanFault::unordered);
        const auto [earlier, later] = std::minmax(finding->first, finding->second);
        std::vector<double> shares = no_delay(plan);
        shares[earlier] = 1.0;
        bool either = false;
        for (const PlanStream first : streams) {
          const std::vector<bool> disturbed = watch.disturbed(plan, shares, first);
          either = either || disturbed[earlier] || disturbed[later];
        }
        CHECK(either);
        ++removed;
        seen += either ? 1 : 0;
      }
    }
  }
  CHECK(removed > 100);
  std::printf(
      "%lld waits removed one by one: %lld times the two operations the audit names were "
      "disturbed\n",
      static_cast<long long>(removed), static_cast<long long>(seen));
}

TEST_CASE("device: a wait for an event recorded later is void: the audit and the run report it") {
  if (!usable()) return;
  PlanWatch watch;
  const PlanBuffer grad{BufferKind::unit_grad, 0};
  StepPlan plan;
  plan.ops = {{OpKind::allocate, PlanStream::compute, grad, {}, {grad}, {}, 0},
              {OpKind::backward, PlanStream::compute, grad, {}, {grad}, {}, -1},
              {OpKind::ready, PlanStream::compute, grad, {grad}, {grad}, {}, 1},
              {OpKind::reduce, PlanStream::comm, grad, {grad}, {}, {0, 1}, 2},
              {OpKind::free, PlanStream::compute, grad, {}, {grad}, {2}, -1}};
  plan.num_events = 3;
  REQUIRE_FALSE(audit_plan(plan));
  CHECK(watch.disturbed(plan, no_delay(plan), PlanStream::compute) == std::vector<bool>(5));
  std::swap(plan.ops[2], plan.ops[3]);  // the wait is now enqueued first
  const auto finding = audit_plan(plan);
  REQUIRE(finding);
  CHECK(finding->fault == PlanFault::late_event);
  tests::expect_error(ErrorCode::internal,
                      [&] { watch.disturbed(plan, no_delay(plan), PlanStream::compute); });
}

}  // namespace plan_streams_test
