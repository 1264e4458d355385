// The plans of an overlapped step on real streams and events: what the audit proves of a plan holds on a device, and
// every wait it asks for is needed there.

#include <doctest.h>

#include <algorithm>
#include <cstdio>

#include "common/base/philox.hpp"
#include "cuda/runtime/plan_audit.hpp"
#include "tests/cuda/device_layouts.hpp"
#include "tests/cuda/runtime/plan_shapes.hpp"
#include "tests/cuda/streams/plan_streams.hpp"

namespace zeroproof::tests {
namespace {

using cuda::audit_plan;
using cuda::make_plan;
using cuda::OpKind;
using cuda::PlanBuffer;
using cuda::PlanFault;
using cuda::PlanOp;
using cuda::PlanStream;
using cuda::StepPlan;
using device_test::disturbed_on_streams;
using device_test::usable;

/// Longer than it takes to enqueue the rest of a plan, a millisecond at 2 GHz and more on slower clocks.
constexpr std::int64_t long_time = 2'000'000;

std::int64_t num_disturbed(const StepPlan& plan, const std::vector<std::int64_t>& cycles) {
  const std::vector<bool> disturbed = disturbed_on_streams(plan, cycles);
  return std::count(disturbed.begin(), disturbed.end(), true);
}

std::vector<std::int64_t> no_delay(const StepPlan& plan) {
  return std::vector<std::int64_t>(plan.ops.size(), 0);
}

TEST_CASE("device: no operation of a plan is disturbed, whatever takes long") {
  if (!usable()) return;
  std::int64_t ops = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    const StepPlan plan = make_plan(random_shape(seed));
    REQUIRE_FALSE(audit_plan(plan));
    CHECK(num_disturbed(plan, no_delay(plan)) == 0);
    const Philox random(seed, 78);
    for (std::uint64_t round = 0; round < 4; ++round) {
      std::vector<std::int64_t> cycles = no_delay(plan);
      for (std::size_t i = 0; i < cycles.size(); ++i) {
        const std::uint64_t draw = 2 * (round * cycles.size() + i);
        cycles[i] =
            random.below(draw, 3) == 0 ? static_cast<std::int64_t>(random.below(draw + 1, 100'000)) : 0;
      }
      CHECK(num_disturbed(plan, cycles) == 0);
    }
    ops += static_cast<std::int64_t>(plan.ops.size());
  }
  std::printf("%lld operations in 120 plans, 5 timings each: none disturbed\n", static_cast<long long>(ops));
}

TEST_CASE("device: without any one of its waits a plan is disturbed where the audit says") {
  if (!usable()) return;
  std::int64_t removed = 0, seen = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const StepPlan whole = make_plan(random_shape(seed));
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
        std::vector<std::int64_t> cycles = no_delay(plan);
        cycles[static_cast<std::size_t>(earlier)] = long_time;
        const std::vector<bool> disturbed = disturbed_on_streams(plan, cycles);
        const bool either =
            disturbed[static_cast<std::size_t>(earlier)] || disturbed[static_cast<std::size_t>(later)];
        CHECK(either);
        ++removed;
        seen += either ? 1 : 0;
      }
    }
  }
  CHECK(removed > 100);
  std::printf("%lld waits removed one by one: %lld times the two operations the audit names were disturbed\n",
              static_cast<long long>(removed), static_cast<long long>(seen));
}

TEST_CASE("device: a wait for an event that is recorded later is void, as the audit says") {
  if (!usable()) return;
  const PlanBuffer grad{cuda::BufferKind::unit_grad, 0};
  StepPlan plan;
  plan.ops = {{OpKind::allocate, PlanStream::compute, grad, {}, {grad}, {}, 0},
              {OpKind::backward, PlanStream::compute, grad, {}, {grad}, {}, -1},
              {OpKind::ready, PlanStream::compute, grad, {grad}, {grad}, {}, 1},
              {OpKind::reduce, PlanStream::comm, grad, {grad}, {}, {0, 1}, 2},
              {OpKind::free, PlanStream::compute, grad, {}, {grad}, {2}, -1}};
  plan.num_events = 3;
  REQUIRE_FALSE(audit_plan(plan));
  std::vector<std::int64_t> cycles = no_delay(plan);
  cycles[1] = long_time;
  CHECK(num_disturbed(plan, cycles) == 0);
  std::swap(plan.ops[2], plan.ops[3]);  // the wait is now enqueued first
  const auto finding = audit_plan(plan);
  REQUIRE(finding);
  CHECK(finding->fault == PlanFault::late_event);
  std::swap(cycles[2], cycles[3]);
  CHECK(num_disturbed(plan, cycles) > 0);
}

}  // namespace
}  // namespace zeroproof::tests
