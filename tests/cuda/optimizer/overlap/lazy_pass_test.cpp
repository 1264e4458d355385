// The pass on simulated streams: correct in both extremes of timing, and wrong or an error as soon
// as one wait is missing.

#include <doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/optimizer/overlap/plan_audit.hpp"
#include "tests/cuda/optimizer/overlap/pass_run.hpp"
#include "tests/cuda/optimizer/overlap/worst_case_streams.hpp"

namespace zeroproof::tests::lazy_pass_test {
namespace {

using cuda::OpKind;
using cuda::PlanStream;
using cuda::StepPlan;

/// Runs another plan than the given one.
class Tampering final : public cuda::PlanRunner {
 public:
  Tampering(PlanStream eager, std::function<void(StepPlan&)> change,
            std::vector<int>* reduced = nullptr)
      : lazy_(eager), change_(std::move(change)), reduced_(reduced) {}
  void run(const StepPlan& plan, const cuda::PlanBody& body) override {
    StepPlan changed = plan;
    change_(changed);
    lazy_.run(changed, [&](const cuda::PlanOp& op) {
      body(op);
      if (reduced_ != nullptr && op.kind == OpKind::reduce) reduced_->push_back(op.target.index);
    });
  }

 private:
  WorstCaseStreams lazy_;
  std::function<void(StepPlan&)> change_;
  std::vector<int>* reduced_;  ///< buckets that were reduced without an error
};

StepPlan plan_of(const PassCase& run) {
  const FlatLayout layout = odd_layout();
  return cuda::make_plan({units_from(layout, run.units),
                          run.visits,
                          ShardMap(layout.padded_numel(), run.world, run.bucket_numel).buckets(),
                          run.stage,
                          run.overlap,
                          {}});
}

/// True if the changed plan gives different bits or an error on simulated streams, whichever stream
/// is eager.
bool shows(PassCase run, const std::function<void(StepPlan&)>& change) {
  for (const PlanStream eager : {PlanStream::compute, PlanStream::comm}) {
    run.runner = [&] { return std::make_unique<Tampering>(eager, change); };
    try {
      for (const PassResult& result : run_pass(run)) {
        if (result.wrong != 0) return true;
      }
    } catch (const Error&) {
      return true;
    }
  }
  return false;
}

std::vector<PassCase> cases() {
  PassCase stage3;
  stage3.micro_batches = 1;
  PassCase stage2 = stage3;
  stage2.stage = 2;
  PassCase small = stage3;
  small.units = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  small.visits = {8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 3};
  small.bucket_numel = 2048;
  return {stage3, stage2, small};
}

TEST_CASE("simulated streams give the bits and the peaks, in both extremes of timing") {
  for (const PassCase& base : cases()) {
    for (const int world : {1, 3}) {
      for (const PlanStream eager : {PlanStream::compute, PlanStream::comm}) {
        PassCase run = base;
        run.world = world;
        run.micro_batches = 4;
        const std::vector<PassResult> threads = run_pass(run);
        run.runner = [eager] { return std::make_unique<WorstCaseStreams>(eager); };
        const std::vector<PassResult> streams = run_pass(run);
        for (std::size_t rank = 0; rank < streams.size(); ++rank) {
          CHECK(streams[rank].wrong == 0);
          CHECK(streams[rank].memory.peak == threads[rank].memory.peak);
        }
      }
    }
  }
}

TEST_CASE("every omitted wait is detected on simulated streams, and in the audit") {
  int removed = 0;
  for (const PassCase& run : cases()) {
    const StepPlan plan = plan_of(run);
    CHECK_FALSE(shows(run, [](StepPlan&) {}));
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      for (std::size_t w = 0; w < plan.ops[i].waits.size(); ++w) {
        const auto remove = [&](StepPlan& changed) {
          std::vector<int>& waits = changed.ops[i].waits;
          waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
        };
        const std::string what = name(plan.ops[i]);
        CAPTURE(what);
        StepPlan changed = plan;
        remove(changed);
        CHECK(cuda::audit_plan(changed));
        CHECK(shows(run, remove));
        ++removed;
      }
    }
  }
  CHECK(removed > 80);
}

TEST_CASE("every omitted operation is detected, except for checks that pass anyway") {
  PassCase run = cases().front();
  const StepPlan plan = plan_of(run);
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    if (plan.ops[i].kind == OpKind::check_version && plan.ops[i].waits.empty()) continue;
    const std::string what = name(plan.ops[i]);
    CAPTURE(what);
    const auto leave_out = [&](StepPlan& changed) {
      changed.ops.erase(changed.ops.begin() + static_cast<std::ptrdiff_t>(i));
    };
    StepPlan changed = plan;
    leave_out(changed);
    const bool audited = cuda::audit_plan(changed).has_value();
    CHECK((audited || shows(run, leave_out)));
  }
}

TEST_CASE(
    "an omitted backward visit of a tied unit is named, whether its bucket is reduced or "
    "not") {
  for (const bool reduces : {true, false}) {
    PassCase run = cases().front();
    std::vector<int> reduced;
    const auto change = [&](StepPlan& plan) {
      const auto first = std::find_if(plan.ops.begin(), plan.ops.end(), [](const cuda::PlanOp& op) {
        return op.kind == OpKind::backward && op.target.index == 0;
      });
      plan.ops.erase(first);
      CHECK_FALSE(cuda::audit_plan(plan));  // to the audit it is a sound plan of another model
      if (!reduces)
        std::erase_if(plan.ops, [](const cuda::PlanOp& op) { return op.kind == OpKind::reduce; });
      for (cuda::PlanOp& op : plan.ops) {
        op.stream = PlanStream::compute;
        op.waits = {};
      }
    };
    run.runner = [&] { return std::make_unique<Tampering>(PlanStream::compute, change, &reduced); };
    std::string text;
    try {
      run_pass(run);
    } catch (const Error& error) {
      text = error.what();
    }
    CHECK(text.find("bucket 0 is not complete: it lacks unit 0 (1 of 2 reports)") == 0);
    CHECK(std::count(reduced.begin(), reduced.end(), 0) == 0);
    CHECK(reduced.empty() != reduces);
  }
}

}  // namespace
}  // namespace zeroproof::tests::lazy_pass_test
