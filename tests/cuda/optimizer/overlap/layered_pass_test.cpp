#include "cuda/optimizer/layered/layered_pass.hpp"

#include <doctest.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/overlap/pass_run.hpp"

namespace zeroproof::tests::layered_pass_test {
namespace {

constexpr auto param_full = static_cast<std::size_t>(MemoryClass::param_full);
constexpr auto grad = static_cast<std::size_t>(MemoryClass::grad);

/// Compares bits on every rank, and requires that no gradient remains. The memory of a pass is
/// checked to the byte by the accounting of whole steps.
void check_pass(const PassCase& run) {
  const std::vector<PassResult> results = run_pass(run);
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    CAPTURE(rank);
    const bool has_work = !micro_batches_of(run, static_cast<std::int64_t>(rank)).empty();
    CHECK(results[rank].wrong == 0);
    CHECK((results[rank].memory.peak[grad] > 0) == has_work);
    CHECK(results[rank].memory.now[grad] == 0);
    CHECK(results[rank].order == results[0].order);
  }
}

/// Peaks of a pass on one rank.
void check_peaks(const PassCase& run, std::int64_t param_bytes, std::int64_t grad_bytes) {
  check_pass(run);
  const PassResult result = run_pass(run)[0];
  CHECK(result.memory.peak[param_full] == param_bytes);
  CHECK(result.memory.peak[grad] == grad_bytes);
}

TEST_CASE(
    "LayeredPass: every rank's gradients are those of whole passes: stages, overlap, ranks, "
    "orders, CP, buckets") {
  int runs = 0;
  for (const int stage : {2, 3}) {
    for (const bool overlap : {false, true}) {
      for (const int world : {1, 2, 3, 4}) {
        for (const MicroBatchOrder order :
             {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
          for (const int cp : {1, 2}) {
            if (world % cp != 0) continue;
            PassCase run;
            run.stage = stage;
            run.overlap = overlap;
            run.world = world;
            run.order = order;
            run.cp = cp;
            run.micro_batches =
                std::array<std::int64_t, 4>{1, 3, 2, 5}[static_cast<std::size_t>(runs % 4)];
            run.bucket_numel =
                std::array<std::int64_t, 3>{1024, 3072, 32768}[static_cast<std::size_t>(runs % 3)];
            const std::string what =
                "stage " + std::to_string(stage) + (overlap ? ", overlap" : "") + ", W " +
                std::to_string(world) + ", cp " + std::to_string(cp) + ", M " +
                std::to_string(run.micro_batches) + ", " + std::string(name(order));
            CAPTURE(what);
            check_pass(run);
            ++runs;
          }
        }
      }
    }
  }
  CHECK(runs == 48);
}

TEST_CASE("LayeredPass: the default order is strided") {
  PassCase run;
  run.world = 2;
  run.micro_batches = 5;
  run.stage = 2;
  check_pass(run);
  run.stage = 3;
  check_pass(run);
}

TEST_CASE("LayeredPass: a rank without micro-batch takes part with no data") {
  for (const MicroBatchOrder order : {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
    PassCase run;
    run.world = 4;
    run.micro_batches = 1;
    run.order = order;
    check_pass(run);
  }
}

TEST_CASE("LayeredPass: several instances number their data ranks one after another") {
  for (const MicroBatchOrder order : {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
    PassCase run;
    run.world = 2;
    run.instances = 2;
    run.cp = 2;
    run.micro_batches = 3;
    run.order = order;
    check_pass(run);
    run.cp = 1;
    run.micro_batches = 7;
    check_pass(run);
  }
}

TEST_CASE(
    "LayeredPass: 16-bit gradients, fp32 parameters, persistent units, one unit, a unit of every "
    "tensor") {
  PassCase run;
  run.world = 2;
  run.grad_dtype = DType::bf16;
  run.param_dtype = DType::fp32;
  check_pass(run);
  run.persistent_numel = 2000;  // units 0 (a, b, empty), 2 (d, one) and 4 (g)
  check_pass(run);
  CHECK(run_pass(run)[0].num_gathers ==
        3 + 2 * 4);  // in a step: once each; units 1 and 3 forth and back, twice
  run.persistent_numel = 100'000;
  check_pass(run);
  run.persistent_numel = 0;
  run.units = {0};
  run.visits = {0, 0};
  check_pass(run);
  run.units = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  run.visits = {8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 3};
  for (const std::int64_t bucket_numel : {1024, 2048, 5120}) {
    run.bucket_numel = bucket_numel;
    check_pass(run);
  }
}

TEST_CASE("LayeredPass: memory of an example, by hand") {
  // Units of 3072, 3072, 2048, 7168 and 2048 elements. Buckets of 3072: unit 0, unit 1, units 2 and 3, two in
  // unit 3, unit 4.
  PassCase run;
  run.visits = {0, 1, 2, 3, 4};
  // units 3 and 4; gradient of 3, bucket of 2 and 3, gradient of 4 (3 is sealed) or of 2 (which computes)
  check_peaks(run, (7168 + 2048) * 2, (7168 + 3072 + 2048) * 4);
  run.overlap = false;
  check_peaks(run, 7168 * 2, (7168 + 3072) * 4);
  // unit 0 first and last: its gradient exists from the start of the backward pass to its end
  run.visits = {0, 1, 2, 3, 4, 0};
  check_peaks(run, 7168 * 2, (3072 + 7168 + 3072) * 4);
}

TEST_CASE("LayeredPass: 200 timings give the same bits and the same peaks") {
  PassCase run;
  run.micro_batches = 3;
  run.steps = 1;
  const PassResult undelayed = run_pass(run)[0];
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    run.world = seed % 8 == 0 ? 3 : 2;
    run.stage = seed % 5 == 0 ? 2 : 3;
    run.hooks.before = cuda::RandomDelays{seed, {0.04, seed % 2 == 0 ? 0.15 : 0.02}, 60};
    for (const PassResult& result : run_pass(run)) {
      REQUIRE(result.wrong == 0);
      REQUIRE(result.memory.peak[grad] == undelayed.memory.peak[grad]);
      REQUIRE(result.memory.peak[param_full] ==
              (run.stage == 3 ? undelayed.memory.peak[param_full] : 0));
    }
  }
}

TEST_CASE("LayeredPass: a failure on either thread of one rank ends all ranks with its text") {
  for (const bool overlap : {true, false}) {
    for (const auto kind : {cuda::OpKind::forward, cuda::OpKind::backward, cuda::OpKind::gather,
                            cuda::OpKind::reduce, cuda::OpKind::free}) {
      for (const int countdown : {0, 3}) {
        PassCase run;
        run.world = 3;
        run.overlap = overlap;
        std::atomic<int> left{countdown};
        run.hooks.before = [&](const cuda::PlanOp& op, std::size_t, std::uint64_t) {
          if (op.kind == kind && left-- == 0) throw std::runtime_error("planted failure");
        };
        CHECK_THROWS_WITH(run_pass(run), "planted failure");
      }
    }
  }
}

TEST_CASE("LayeredPass: a failing communicator ends the compute stream, which waits for it") {
  for (const bool overlap : {true, false}) {
    PassCase run;
    run.world = 3;
    run.overlap = overlap;
    ThreadWorld world(3);
    expect_error(ErrorCode::comm, [&] {
      run_ranks(world, [&](Communicator& comm) {
        if (comm.rank() != 1) run_rank(run, comm, nullptr);  // rank 1 is gone
      });
    });
  }
}

TEST_CASE("LayeredPass: no memory is allocated after a failure") {
  const FlatLayout layout = odd_layout();
  const ShardMap shards(layout.padded_numel(), 1, 3072);
  ThreadWorld world(1);
  const auto comm = world.communicator(0);
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = comm.get();
  setup.stage = 3;
  setup.overlap = true;
  SyntheticModel model(layout, units_from(layout, {0, 3, 6}), {0, 1, 2});
  FakeGatherer gatherer(*comm, layout);
  FakeSink sink(*comm, shards, DType::fp32);
  cuda::MemoryLedger ledger;
  std::size_t fails = 0;
  cuda::LayeredPass pass(setup, model, &gatherer, sink, ledger, {},
                         {{}, [&](const cuda::PlanOp&, std::size_t op, std::uint64_t) {
                            if (op == fails) throw std::runtime_error("planted failure");
                          }});
  for (; fails < pass.plan().ops.size(); ++fails) {
    CHECK_THROWS_WITH(pass.run(), "planted failure");
    CHECK(ledger.use().total_now == 0);
  }
  pass.run();  // and the pass works again
  CHECK(ledger.use().total_now == 0);
}

TEST_CASE("LayeredPass: invalid arguments are errors") {
  const FlatLayout layout = odd_layout();
  const ShardMap shards(layout.padded_numel(), 1, 3072);
  ThreadWorld world(1);
  const auto comm = world.communicator(0);
  FakeGatherer gatherer(*comm, layout);
  FakeSink sink(*comm, shards, DType::fp32);
  cuda::MemoryLedger ledger;
  const auto refused = [&](int stage, std::vector<FlatRange> units, std::vector<int> visits,
                           bool gathers, const TensorView& params) {
    OptimizerSetup setup;
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = comm.get();
    setup.stage = stage;
    SyntheticModel model(layout, std::move(units), std::move(visits));
    expect_error(ErrorCode::invalid_argument, [&] {
      cuda::LayeredPass(setup, model, gathers ? &gatherer : nullptr, sink, ledger, params);
    });
  };
  const std::vector<FlatRange> units = units_from(layout, {0, 3});
  const GuardedBuffer params(layout.padded_numel(), DType::bf16),
      wide(layout.padded_numel(), DType::fp32);
  refused(1, units, {0, 1}, true, params.view());
  refused(3, units, {0, 1}, false, params.view());
  refused(2, units, {0, 1}, false, {});
  refused(2, units, {0, 1}, false, wide.view());
  refused(3, units, {0}, true, {});
  refused(3, units, {0, 1, 2}, true, {});
  refused(3, units, {0, 1, -1}, true, {});
  refused(3, {units[0]}, {0}, true, {});
  refused(3, {{0, 1024}, {1024, layout.padded_numel()}}, {0, 1}, true, {});  // inside tensor a
  refused(3, {units[1], units[0]}, {0, 1}, true, {});
}

}  // namespace
}  // namespace zeroproof::tests::layered_pass_test
