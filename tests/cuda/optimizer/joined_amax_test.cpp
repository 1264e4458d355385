// Largest magnitudes joined over ranks, as many words at a time as a call may have.

#include "cuda/optimizer/params/joined_amax.hpp"

#include <doctest.h>

#include <cstdint>
#include <vector>

#include "common/comm/threads.hpp"

namespace joined_amax_test {

using namespace zeroproof;

namespace {

constexpr int ranks = 3;

/// Word i of a rank: the largest one is on another rank for each i.
std::uint32_t word(int rank, std::uint32_t i) { return 10 * i + (i + rank) % ranks; }

}  // namespace

TEST_CASE("join_amax: any number of words on both sides of the limit of a call") {
  ThreadWorld world(ranks);
  run_ranks(world, [](Communicator& comm) {
    for (const std::uint32_t count : {0U, 1U, 3U, 4U, 5U, 8U, 9U}) {
      for (const int stage : {0, 1}) {
        for (const bool tp : {false, true}) {
          OptimizerSetup setup;
          setup.stage = stage;
          (tp ? setup.tp : setup.comm) = &comm;
          std::vector<std::uint32_t> narrow, expected;
          for (std::uint32_t i = 0; i < count; ++i) {
            narrow.push_back(word(comm.rank(), i));
            expected.push_back(stage > 0 || tp ? 10 * i + ranks - 1 : narrow.back());
          }
          std::vector<std::uint64_t> words(narrow.begin(), narrow.end());
          cuda::join_amax(setup, narrow, 4);
          cuda::join_amax(setup, {setup.comm, nullptr, setup.tp}, words.data(), count, 4);
          CHECK(narrow == expected);
          CHECK(words == std::vector<std::uint64_t>(expected.begin(), expected.end()));
        }
      }
    }
  });
}

}  // namespace joined_amax_test
