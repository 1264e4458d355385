// Ranks that are threads: whose error counts when one fails and the others hear of it.

#include <doctest.h>

#include "common/base/error.hpp"
#include "verification/world/world.hpp"

using namespace zeroproof;
using namespace zeroproof::verification;

TEST_CASE("a world of threads: the error of the rank that failed counts, wherever the others waited for it") {
  // Others may be told by a communicator of the candidate's and end before the rank that told them: so, many times.
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
