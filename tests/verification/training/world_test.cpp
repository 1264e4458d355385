// Thread ranks: the reported error if one fails and the others are aborted.

#include <doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "common/base/error.hpp"
#include "common/comm/threads.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/training/ranks/world.hpp"

namespace world_test {

using namespace zeroproof;
using namespace zeroproof::verification;

TEST_CASE("run_world: the error of the failed rank is reported, wherever the others wait for it") {
  // Other ranks may be aborted through the candidate's communicator and end before the failed rank:
  // hence many repetitions.
  constexpr int times = 2000;
  WorldSpec spec;
  spec.kind = WorldSpec::Kind::threads;
  spec.size = 3;
  int wrong = 0;
  for (int i = 0; i < times; ++i) {
    const auto world = make_local_world(spec, 30);
    try {
      world->run([](int rank, const RankComparison::Communicators& comms) {
        if (rank == 0) fail(ErrorCode::unavailable, "no device", "it is the cause", "get one");
        (rank == 1 ? comms.candidate : comms.reference)->barrier();
      });
      ++wrong;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE(
    "run_world: the error of the failed rank is reported, also if another rank returns earlier") {
  // Ranks meet in a second world, like ranks under NCCL, and rank 1 ends before rank 0.
  ThreadWorld elsewhere(2, std::chrono::seconds(30));
  WorldSpec spec;
  spec.kind = WorldSpec::Kind::threads;
  spec.size = 2;
  const auto world = make_local_world(spec, 30);
  std::atomic<bool> caught = false;
  const auto work = [&](int rank, const RankComparison::Communicators& comms) {
    const auto meeting = elsewhere.communicator(rank);
    if (rank == 1) meeting->barrier();
    meeting->abort("no device");
    while (!caught) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    comms.harness->barrier();  // until rank 1's end has arrived here
  };
  try {
    world->run([&](int rank, const RankComparison::Communicators& comms) {
      try {
        work(rank, comms);
      } catch (const Error& error) {
        CHECK(error.origin() == ErrorOrigin::peer);
        caught = true;
        if (rank == 0) fail(ErrorCode::unavailable, "no device", "it is the cause", "get one");
        throw;
      }
    });
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::unavailable);
  }
}

TEST_CASE("world: threads on several hosts share memory only inside a host") {
  const WorldSpec spec = parse_world("threads:1+2+2");
  CHECK(spec.id() == "threads:1+2+2");
  const auto world = make_local_world(spec, 30);
  CHECK(world->size() == 5);
  std::atomic<int> wrong = 0;
  world->run([&](int rank, const RankComparison::Communicators& comms) {
    const int host = rank == 0 ? 0 : (rank + 1) / 2;
    for (Communicator* const comm : {comms.reference, comms.candidate}) {
      if (comm->host_of(rank) != "host" + std::to_string(host)) ++wrong;
      if (comm->shares_addresses() || comm->shared_window(8) != nullptr) ++wrong;
      if (comm->split(host)->shared_window(8) == nullptr) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("world: windows inside of hosts and messages between them have the bits of one rank") {
  VerifyOptions options;
  options.patterns = {"byte_gpt_tiny"};
  options.recipes = {"adamw"};
  options.overrides = [](RunConfig& config) {
    config.worlds = {"threads:1+2", "threads:2+1+2"};
    config.windows = {Windows::on, Windows::params};
    config.orders = {MicroBatchOrder::contiguous, MicroBatchOrder::strided};
    config.dtypes = {DType::bf16};
    config.omp_threads = {1};
    config.steps = 3;
  };
  const RunReport report =
      run_selection(options, select_cases(options), [](double, const std::string&) {});
  CHECK(report.results.size() >= 60);
  for (const Result& result : report.results) {
    CAPTURE(result.id);
    CAPTURE(result.reason);
    CHECK(result.status == Status::pass);
  }
}

}  // namespace world_test
