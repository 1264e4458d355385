#include "cuda/optimizer/overlap/plan_executor.hpp"

#include <doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/optimizer/overlap/plan_audit.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/overlap/plan_shapes.hpp"
#include "tests/cuda/optimizer/overlap/worst_case_streams.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace zeroproof::tests::plan_executor_test {
namespace {

using cuda::ExecutorHooks;
using cuda::make_plan;
using cuda::OpKind;
using cuda::OpSpan;
using cuda::PlanExecutor;
using cuda::PlanOp;
using cuda::PlanRunner;
using cuda::PlanStream;
using cuda::RandomDelays;
using cuda::StepPlan;

StepPlan three_units(bool overlap = true) {
  return make_plan({neighbours({8, 8, 8}), {0, 1, 2}, neighbours({8, 8, 8}), 3, overlap, {}});
}

/// An operation that waits and records, on no memory.
PlanOp step(PlanStream stream, std::vector<int> waits, int records) {
  return {OpKind::forward, stream, {}, {}, {}, std::move(waits), records};
}

/// Order of the operations as they began, by address in the plan.
std::vector<std::size_t> ran(PlanRunner& runner, const StepPlan& plan) {
  std::mutex mutex;
  std::vector<std::size_t> order;
  runner.run(plan, [&](const PlanOp& op) {
    const std::lock_guard lock(mutex);
    order.push_back(static_cast<std::size_t>(&op - plan.ops.data()));
  });
  return order;
}

/// True if every operation ran once, after the earlier ones on its stream and those it waits for.
bool is_legal(const StepPlan& plan, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> at(plan.ops.size(), order.size());
  for (std::size_t i = 0; i < order.size(); ++i) at[order[i]] = i;
  if (order.size() != plan.ops.size()) return false;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    if (at[i] == order.size()) return false;
    for (std::size_t before = 0; before < i; ++before) {
      const bool recorded = std::count(plan.ops[i].waits.begin(), plan.ops[i].waits.end(),
                                       plan.ops[before].records) > 0;
      if ((recorded || plan.ops[before].stream == plan.ops[i].stream) && at[before] > at[i])
        return false;
    }
  }
  return true;
}

TEST_CASE("plan runners: every runner respects streams and events") {
  PlanExecutor threads;
  PlanExecutor delayed("host", {{}, RandomDelays{3, {0.5, 0.5}, 100}});
  WorstCaseStreams lazy_comm(PlanStream::compute), lazy_compute(PlanStream::comm);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const StepPlan plan = make_plan(random_shape(seed));
    for (PlanRunner* runner :
         {static_cast<PlanRunner*>(&threads), static_cast<PlanRunner*>(&delayed),
          static_cast<PlanRunner*>(&lazy_comm), static_cast<PlanRunner*>(&lazy_compute)}) {
      CHECK(is_legal(plan, ran(*runner, plan)));
    }
  }
  PlanExecutor().run({}, [](const PlanOp&) { FAIL("there is nothing to run"); });
}

TEST_CASE("simulated streams run a stream as late as waits allow") {
  StepPlan plan;
  plan.ops = {step(PlanStream::comm, {}, 0), step(PlanStream::comm, {}, -1),
              step(PlanStream::compute, {}, -1), step(PlanStream::compute, {0}, 1),
              step(PlanStream::comm, {1}, -1)};
  plan.num_events = 2;
  WorstCaseStreams lazy_comm(PlanStream::compute), lazy_compute(PlanStream::comm);
  CHECK(ran(lazy_comm, plan) == std::vector<std::size_t>{2, 0, 3, 1, 4});
  CHECK(ran(lazy_compute, plan) == std::vector<std::size_t>{0, 1, 2, 3, 4});
}

TEST_CASE("one communication thread for all plans, and none without overlap") {
  PlanExecutor executor;
  std::mutex mutex;
  std::set<std::thread::id> compute, comm;
  const auto run = [&](const StepPlan& plan) {
    executor.run(plan, [&](const PlanOp& op) {
      const std::lock_guard lock(mutex);
      (op.stream == PlanStream::compute ? compute : comm).insert(std::this_thread::get_id());
    });
  };
  run(three_units(false));
  CHECK(comm.empty());
  for (int i = 0; i < 20; ++i) run(three_units());
  CHECK(compute == std::set<std::thread::id>{std::this_thread::get_id()});
  CHECK(comm.size() == 1);
  CHECK(comm.count(std::this_thread::get_id()) == 0);
}

TEST_CASE("communication and computing really overlap") {
  // the gather of unit 1 does not end before unit 0 computes: only possible side by side
  PlanExecutor executor;
  std::atomic<bool> computes{false};
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  executor.run(three_units(), [&](const PlanOp& op) {
    if (op.kind == OpKind::forward && op.target.index == 0) computes = true;
    if (op.kind != OpKind::gather || op.target.index != 1) return;
    while (!computes && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  });
  CHECK(computes);
  CHECK(std::chrono::steady_clock::now() < limit);
}

TEST_CASE(
    "plan runners: an exception ends both streams and is rethrown, and the runner can be used "
    "again") {
  PlanExecutor threads;
  WorstCaseStreams lazy_comm(PlanStream::compute), lazy_compute(PlanStream::comm);
  const StepPlan plan = three_units();
  for (PlanRunner* runner :
       {static_cast<PlanRunner*>(&threads), static_cast<PlanRunner*>(&lazy_comm),
        static_cast<PlanRunner*>(&lazy_compute)}) {
    for (std::size_t fails = 0; fails < plan.ops.size(); ++fails) {
      CAPTURE(fails);
      std::atomic<int> after{0};
      const PlanOp* const failing = &plan.ops[fails];
      const auto body = [&](const PlanOp& op) {
        if (&op == failing) throw std::runtime_error("operation failed");
        const bool waits = std::count(op.waits.begin(), op.waits.end(), failing->records) > 0;
        if (waits || (op.stream == failing->stream && &op > failing)) ++after;
      };
      CHECK_THROWS_WITH_AS(runner->run(plan, body), "operation failed", std::runtime_error);
      CHECK(after == 0);
      CHECK(is_legal(plan, ran(*runner, plan)));
    }
  }
}

TEST_CASE("plan executor: the cause of a failure is reported, not its consequences") {
  // The other stream waits for an event that no later operation records, which is a separate error.
  for (const PlanStream failing : {PlanStream::comm, PlanStream::compute}) {
    const PlanStream other = failing == PlanStream::comm ? PlanStream::compute : PlanStream::comm;
    PlanExecutor executor;
    StepPlan plan;
    plan.ops = {step(failing, {}, 0), step(other, {0}, -1)};
    plan.num_events = 1;
    for (int repeat = 0; repeat < 20; ++repeat) {
      CHECK_THROWS_WITH(
          executor.run(plan, [](const PlanOp&) { throw std::runtime_error("cause"); }), "cause");
    }
  }
}

TEST_CASE("plan executor: of two simultaneous failures one is reported") {
  PlanExecutor executor;
  StepPlan plan;
  plan.ops = {step(PlanStream::comm, {}, -1), step(PlanStream::compute, {}, -1)};
  std::atomic<int> running{0};
  const auto body = [&](const PlanOp&) {
    ++running;
    while (running < 2) std::this_thread::yield();
    throw std::runtime_error("either");
  };
  CHECK_THROWS_WITH(executor.run(plan, body), "either");
  CHECK_NOTHROW(executor.run(plan, [](const PlanOp&) {}));
}

TEST_CASE("plan runners: unsatisfiable waits are errors, not hangs") {
  const std::vector<std::vector<PlanOp>> hopeless = {
      {step(PlanStream::compute, {0}, -1)},
      {step(PlanStream::comm, {0}, -1)},
      {step(PlanStream::compute, {0}, 0)},
      {step(PlanStream::comm, {}, -1), step(PlanStream::compute, {0}, -1)},
      {step(PlanStream::compute, {1}, 0), step(PlanStream::comm, {0}, 1)},
      {step(PlanStream::compute, {}, -1), step(PlanStream::comm, {1}, 0),
       step(PlanStream::compute, {0}, 1)}};
  WorstCaseStreams lazy_comm(PlanStream::compute), lazy_compute(PlanStream::comm);
  for (std::size_t i = 0; i < hopeless.size(); ++i) {
    CAPTURE(i);
    StepPlan plan;
    plan.ops = hopeless[i];
    plan.num_events = 2;
    const auto found = cuda::audit_plan(plan);
    REQUIRE(found);
    CHECK(found->fault == cuda::PlanFault::deadlock);
    for (int repeat = 0; repeat < 20; ++repeat) {
      PlanExecutor executor;
      expect_error(ErrorCode::internal, [&] { executor.run(plan, [](const PlanOp&) {}); });
    }
    expect_error(ErrorCode::internal, [&] { lazy_comm.run(plan, [](const PlanOp&) {}); });
    expect_error(ErrorCode::internal, [&] { lazy_compute.run(plan, [](const PlanOp&) {}); });
  }
}

TEST_CASE("delays: only the chosen stream is delayed") {
  using std::chrono::microseconds;
  const PlanOp comm = step(PlanStream::comm, {}, -1), compute = step(PlanStream::compute, {}, -1);
  const RandomDelays always{7, {0, 1.0}, 2000}, half{7, {0, 0.5}, 2000};
  int delayed = 0, delayed_by_half = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    CHECK(always.delay(compute, i, 0) == microseconds(0));
    CHECK(always.delay(comm, i, 0) == always.delay(comm, i, 0));
    CHECK(always.delay(comm, i, 0) <= microseconds(2000));
    delayed += always.delay(comm, i, 0) > microseconds(0) ? 1 : 0;
    delayed_by_half += half.delay(comm, i, 0) > microseconds(0) ? 1 : 0;
  }
  CHECK(delayed > 190);  // one in 2001 of the delays is 0
  CHECK(delayed_by_half > 50);
  CHECK(delayed_by_half < 150);
}

TEST_CASE("a trace holds every operation once, on its stream, in order of time") {
  std::mutex mutex;
  std::vector<OpSpan> spans;
  PlanExecutor executor("host", {[&](const OpSpan& span) {
                                   const std::lock_guard lock(mutex);
                                   spans.push_back(span);
                                 },
                                 {}});
  const StepPlan plan = three_units();
  executor.run(plan, [](const PlanOp&) {});
  for (const PlanStream stream : {PlanStream::compute, PlanStream::comm}) {
    std::vector<std::string> expected, traced;
    for (const PlanOp& op : plan.ops) {
      if (op.stream == stream) expected.push_back(name(op));
    }
    std::int64_t last = 0;
    for (const OpSpan& span : spans) {
      if (span.stream != stream) continue;
      traced.push_back(span.name);
      CHECK(span.begin_ns >= last);
      CHECK(span.end_ns >= span.begin_ns);
      last = span.end_ns;
    }
    CHECK(traced == expected);
  }
  CHECK(spans.size() == plan.ops.size());
}

#if defined(__x86_64__)
TEST_CASE("a wrong floating-point environment on either thread is an error of that thread") {
  constexpr unsigned flush_to_zero = 1U << 15;
  const unsigned before = _mm_getcsr();
  for (const PlanStream stream : {PlanStream::compute, PlanStream::comm}) {
    PlanExecutor executor("rank 3");
    std::string text;
    try {
      executor.run(three_units(), [&](const PlanOp& op) {
        if (op.stream == stream) _mm_setcsr(before | flush_to_zero);
      });
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::fp_environment);
      text = error.what();
    }
    _mm_setcsr(before);
    CHECK(text.find("rank 3, " + std::string(name(stream)) + " thread: flush-to-zero is on") == 0);
  }
}
#endif

}  // namespace
}  // namespace zeroproof::tests::plan_executor_test
