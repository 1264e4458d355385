// Thread ranks: the reported error if one fails and the others are aborted.

#include <doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "common/base/error.hpp"
#include "common/comm/threads.hpp"
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

}  // namespace world_test
