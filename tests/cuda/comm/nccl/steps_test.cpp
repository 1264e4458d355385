// Enqueued steps of ranks that communicate through NCCL: host calls, halts, and the effect on other
// ranks if one rank stops.

#include <doctest.h>

#include <cstdlib>
#include <thread>

#include "tests/cuda/comm/nccl/nccl_support.hpp"
#include "tests/cuda/device/enqueued_support.hpp"
#include "tests/cuda/device/sim/streams_support.hpp"

namespace steps_test {

using namespace zeroproof;
using namespace zeroproof::nccl_test;
using namespace zeroproof::tests;
using cuda::EnqueuedOptimizer;
using cuda::StepStatus;

namespace {

const int library_is_set = ::setenv("ZP_NCCL_LIBRARY", ZP_FAKE_NCCL_LIBRARY, 1);

constexpr int ranks = 3;
constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

struct Steps {
  Steps(Communicator& control, bool graphs, OnNonfinite on_nonfinite = OnNonfinite::skip)
      : rank(graphs, on_nonfinite, EnqueuedRank::usual(), &control),
        leaves(rank, ranks),
        same(rank, ranks) {
    rank.optimizer->load_state(rank.state());
    rank.on_host->load_state(rank.state());
  }
  ~Steps() { rank.optimizer.reset(); }  // enqueued work reads the gradients
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  void fill(float factor) {
    leaves.fill(factor);
    same.fill(factor);
  }

  EnqueuedRank rank;
  DeviceGrads leaves;
  HostGrads same;
};

}  // namespace

TEST_CASE(
    "nccl steps: from the third on, no wait, no allocation, and one graph for the whole step") {
  REQUIRE(library_is_set == 0);
  check_ranks(ranks, [](Communicator& control) {
    for (const bool graphs : {false, true}) {
      CAPTURE(graphs);
      Steps steps(control, graphs);
      for (int step = 1; step <= 8; ++step) {
        CAPTURE(step);
        steps.fill(step == 4 || step == 7 ? no_number : 1.0F);  // skipped in the middle of replays
        const cuda::DeviceCalls before = cuda::device::device_calls();
        steps.rank.optimizer->enqueue_step(steps.leaves);
        const cuda::DeviceCalls& now = cuda::device::device_calls();
        if (step >= 3) {
          CHECK(now.waits - before.waits == 0);
          CHECK(now.allocations - before.allocations == 0);
          CHECK(now.graph_launches - before.graph_launches == (graphs ? 1 : 0));
        }
      }
      for (int step = 1; step <= 8; ++step) {
        steps.fill(step == 4 || step == 7 ? no_number : 1.0F);
        steps.rank.on_host->step(steps.same);
      }
      const StepStatus status = steps.rank.optimizer->wait();
      CHECK(status.steps == 8);
      CHECK(status.applied_steps == 6);
      CHECK(status.scaler == steps.rank.on_host->loss_scaler());
      steps.rank.check_same_state();
    }
  });
}

TEST_CASE("nccl steps: elements of matrices move inside of the graph, also in skipped steps") {
  check_ranks(ranks, [](Communicator& control) {
    for (const MatrixOwners owners : {MatrixOwners::every, MatrixOwners::balanced}) {
      EnqueuedRank rank(true, OnNonfinite::skip, muon_params(), &control);
      use_muon(rank);
      rank.setup.matrix_owners = owners;
      rank.setup.missing_grad = MissingGrad::skip;
      rank.remake(2, true);
      check_each_step(rank, rank.state(3));
      rank.optimizer.reset();  // enqueued work reads the gradients
    }
  });
}

TEST_CASE("nccl steps: a halt is thrown on all ranks in the same step") {
  const sim_test::UseOrder everything(cuda::sim::StreamOrder::awaited_last);
  check_ranks(ranks, [](Communicator& control) {
    Steps steps(control, true, OnNonfinite::error);
    steps.rank.optimizer->enqueue_step(steps.leaves);
    steps.rank.on_host->step(steps.same);
    steps.leaves.fill(no_number);
    steps.rank.optimizer->enqueue_step(steps.leaves);  // number 1, from 0
    steps.leaves.fill(1.0F);
    std::int64_t enqueued = 2;
    try {
      for (; enqueued < 3 * EnqueuedOptimizer::most_enqueued; ++enqueued) {
        // The device finishes the work of all ranks: ranks read the halt at different times, long
        // before.
        if (control.rank() == 1 && enqueued % 5 == 0) cuda::device::wait_for_stream();
        steps.rank.optimizer->enqueue_step(steps.leaves);
      }
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::nonfinite);
      contains(error.what(), "step 2 has a gradient that is not finite");
    }
    CHECK(enqueued == 1 + EnqueuedOptimizer::most_enqueued);
    control.barrier();
    CHECK_THROWS_AS(steps.rank.optimizer->wait(), Error);
    steps.rank.check_same_state();
  });
}

namespace {

/// Time limit of the ranks' meetings; that of NCCL is half of it. Steps of simulated devices take
/// some time too.
constexpr std::chrono::seconds step_limit{4};

/// A rank that fails in the fifth step, after the others' third replay.
Outcome run_with(const std::string& plan,
                 const std::function<void(Communicator&, Steps&)>& misbehave) {
  const UsePlan use_plan("patience=0");
  const auto work = [&](Communicator& control) {
    Steps steps(control, true);
    for (int step = 0; step < 4; ++step) steps.rank.optimizer->enqueue_step(steps.leaves);
    steps.rank.optimizer->wait();
    control.barrier();
    if (!plan.empty() && control.rank() == 0)
      fake_function<void(const char*)>("zp_fake_nccl_plan")(plan.c_str());
    control.barrier();
    misbehave(control, steps);
    steps.rank.optimizer->enqueue_step(steps.leaves);
    steps.rank.optimizer->wait();
  };
  return run_failing(ranks, work, step_limit);
}

}  // namespace

TEST_CASE("nccl steps: a rank that dies is named by the others") {
  const Outcome outcome = run_with("", [](Communicator& control, Steps&) {
    if (control.rank() == 1)
      fail(ErrorCode::io, "the disk is full", "nothing can be written", "free some");
  });
  for (const int rank : {0, 2}) {
    const std::string& text = outcome.texts[rank];
    CHECK(!text.empty());
    contains(text, "rank 1");
  }
}

TEST_CASE("nccl steps: an absent rank is named by the others") {
  const Outcome outcome = run_with("", [&](Communicator& control, Steps&) {
    if (control.rank() != 1) return;
    std::this_thread::sleep_for(7 * step_limit / 4);
    fail(ErrorCode::internal, "it was elsewhere", "nothing", "nothing");
  });
  for (const int rank : {0, 2}) contains(outcome.texts[rank], "rank 1");
}

TEST_CASE("nccl steps: a rank with a different call is named with its call") {
  const Outcome outcome = run_with("", [](Communicator& control, Steps&) {
    if (control.rank() == 2) control.barrier();
  });
  for (const std::string& text : outcome.texts) {
    contains(text, "ranks 0 and 1 call all_gather #");
    contains(text, "rank 2 calls barrier #");
  }
}

TEST_CASE("nccl steps: a device that hangs in a replay is named with the call") {
  const Outcome outcome = run_with("stall=1:64", [](Communicator&, Steps& steps) {
    for (int step = 0; step < 3; ++step) steps.rank.optimizer->enqueue_step(steps.leaves);
  });
  for (const std::string& text : outcome.texts) {
    contains(text, "did not end on ranks 0, 1 and 2 within 2 s");
    contains(text, "a device or a link between two hangs");
  }
}

namespace {

long long ask_fake(const char* name) { return fake_function<long long()>(name)(); }
long long windows() { return ask_fake("zp_fake_nccl_windows"); }

/// Bytes that all ranks received in windows, and in memory that is registered for messages.
struct Received {
  long long windows = ask_fake("zp_fake_nccl_received_in_windows");
  long long messages = ask_fake("zp_fake_nccl_received_in_messages");
};

/// Steps of a stage, the later ones as graphs. Calls check(bytes received in every step) on each
/// rank.
void run_stage(Communicator& control, int stage,
               const std::function<void(const Received&)>& check) {
  CAPTURE(stage);
  Steps steps(control, true);
  steps.rank.setup.stage = stage;
  steps.rank.setup.persistent_numel = 100;  // stage 3: all but one tensor
  steps.rank.remake(ranks, true);
  steps.rank.optimizer->load_state(steps.rank.state());
  steps.rank.on_host->load_state(steps.rank.state());
  for (int step = 0; step < 5; ++step) {
    steps.fill(1.0F);
    control.barrier();
    const Received before;
    control.barrier();
    steps.rank.optimizer->enqueue_step(steps.leaves);
    steps.rank.on_host->step(steps.same);
    control.barrier();
    const Received now;
    check({now.windows - before.windows, now.messages - before.messages});
  }
  CHECK(steps.rank.optimizer->wait().applied_steps == 5);
  steps.rank.check_same_state();
}

}  // namespace

TEST_CASE(
    "nccl steps: whole parameters arrive in windows, also in graphs, and gradients in "
    "registered memory") {
  check_ranks(ranks, [](Communicator& control) {
    for (const int stage : {0, 1, 2, 3}) {
      run_stage(control, stage, [&](const Received& received) {
        if (stage > 0) CHECK(received.windows >= ranks);
        CHECK(received.messages >= ranks * (ranks - 1));
      });
    }
    control.barrier();
    CHECK(windows() == 0);
  });
}

TEST_CASE("nccl steps: a library without windows uses ordinary memory") {
  const UsePlan plan("version=2.20.0");
  check_ranks(ranks, [](Communicator& control) {
    for (const int stage : {1, 3})
      run_stage(control, stage, [](const Received& received) {
        CHECK(received.windows == 0);
        CHECK(received.messages == 0);
      });
  });
}

TEST_CASE(
    "nccl steps: refused devices, memory and windows end all ranks, and resources are freed") {
  struct Refusal {
    const char *plan, *problem;
  };
  for (const Refusal& refusal :
       {Refusal{"ranks_per_device=1", "NCCL says: invalid usage: Duplicate GPU detected: ranks"},
        Refusal{"fail=mem_alloc:2", "bytes could not be allocated"},
        Refusal{"fail=register:1:1", "the registration of a window failed on nccl:3"},
        Refusal{"fail=mem_alloc:4", "bytes could not be allocated"},  // for messages
        Refusal{"fail=register_message:1:2",
                "the registration of message memory failed on nccl:3"}}) {
    CAPTURE(refusal.plan);
    const UsePlan plan(refusal.plan);
    const Outcome outcome = run_failing(ranks, [](Communicator& control) {
      Steps steps(control, true);
      steps.rank.optimizer->enqueue_step(steps.leaves);
      steps.rank.optimizer->wait();
    });
    for (const std::string& text : outcome.texts) contains(text, refusal.problem);
    CHECK(complaints().empty());
    CHECK(windows() == 0);
  }
}

TEST_CASE("nccl steps: a rank that ends between two steps frees its window first") {
  const Outcome outcome = run_failing(ranks, [](Communicator& control) {
    Steps steps(control, true);
    for (int step = 0; step < 3; ++step) steps.rank.optimizer->enqueue_step(steps.leaves);
    control.barrier();
    if (control.rank() == 1)
      fail(ErrorCode::io, "the disk is full", "nothing can be written", "free some");
    steps.rank.optimizer->wait();
  });
  CHECK(!outcome.texts[1].empty());
  CHECK(complaints().empty());
  CHECK(windows() == 0);
}

}  // namespace steps_test
