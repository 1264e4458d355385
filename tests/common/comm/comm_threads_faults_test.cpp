#include <doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm_cases.hpp"
#include "comm_mismatches.hpp"
#include "common/base/error.hpp"
#include "common/comm/threads.hpp"
#include "thread_outcome.hpp"

using zeroproof::Communicator;
using zeroproof::Error;
using zeroproof::ErrorCode;
using zeroproof::IntegerReduce;
using zeroproof::run_ranks;
using zeroproof::Span;
using zeroproof::ThreadWorld;
using zeroproof_test::Bytes;
using zeroproof_test::check_same_error;
using zeroproof_test::Mismatch;
using zeroproof_test::mismatches;
using zeroproof_test::Outcome;
using zeroproof_test::promptly;
using zeroproof_test::run;
using zeroproof_test::short_limit;
using zeroproof_test::writable;

TEST_CASE("threads: disagreements have the same message on every rank") {
  Bytes data(8);
  std::array<std::uint64_t, 2> words{};
  const auto two_blocks = [](Bytes& a) { return std::vector<Span<std::byte>>{a, a, a}; };
  SUBCASE("operation") {
    ThreadWorld world(3);
    check_same_error(
        run(world,
            [&](Communicator& comm) {
              comm.barrier();
              Bytes mine(8);
              if (comm.rank() == 1)
                comm.broadcast(mine, 2);
              else
                comm.barrier();
            }),
        ErrorCode::comm,
        "the ranks are not in the same collective: ranks 0 and 2 call barrier #2, rank 1 calls "
        "broadcast #2 from root 2");
  }
  SUBCASE("root") {
    ThreadWorld world(3);
    check_same_error(
        run(world,
            [&](Communicator& comm) {
              Bytes mine(8);
              comm.broadcast(mine, comm.rank() == 2 ? 2 : 0);
            }),
        ErrorCode::comm,
        "the ranks are not in the same collective: ranks 0 and 1 call broadcast #1 from root 0, "
        "rank 2 calls broadcast #1 from root 2");
  }
  SUBCASE("reduction") {
    ThreadWorld world(2);
    check_same_error(
        run(world,
            [&](Communicator& comm) {
              std::array<std::uint64_t, 2> mine = words;
              comm.all_reduce(mine, comm.rank() == 0 ? IntegerReduce::sum : IntegerReduce::max);
            }),
        ErrorCode::comm,
        "the ranks are not in the same collective: rank 0 calls all_reduce #1 (sum), rank 1 calls "
        "all_reduce #1 (max)");
  }
  SUBCASE("count of one pair") {
    ThreadWorld world(3);
    check_same_error(
        run(world,
            [&](Communicator& comm) {
              Bytes four(4);
              std::vector<Bytes> recv(3, Bytes(4));
              if (comm.rank() == 2) recv[0].resize(5);
              comm.all_gather(four, writable(recv));
            }),
        ErrorCode::comm,
        "the ranks disagree about counts: in all_gather #1 rank 0 sends 4 bytes to rank 2, which "
        "expects 5 (");
  }
  SUBCASE("length of a broadcast") {
    ThreadWorld world(2);
    check_same_error(run(world,
                         [&](Communicator& comm) {
                           Bytes mine(comm.rank() == 0 ? 4 : 0);
                           comm.broadcast(mine, 0);
                         }),
                     ErrorCode::comm,
                     "the ranks disagree about counts: in broadcast #1 from root 0 rank 0 sends 4");
  }
  SUBCASE("a rank's own block") {
    ThreadWorld world(3);
    check_same_error(
        run(world,
            [&](Communicator& comm) {
              Bytes mine(8);
              Bytes other(comm.rank() == 1 ? 9 : 8);
              comm.all_to_all(std::vector<Span<const std::byte>>{mine, mine, mine},
                              two_blocks(other));
            }),
        ErrorCode::comm,
        "the ranks disagree about counts: in all_to_all #1 rank 0 sends 8 bytes to rank 1");
  }
}

TEST_CASE(
    "threads: every pair of mismatched calls has the same message on all ranks before data moves") {
  const std::vector<Mismatch> calls = mismatches();
  int kinds = 0;
  double longest = 0;
  for (std::size_t others = 0; others < calls.size(); ++others) {
    for (std::size_t one = 0; one < calls.size(); ++one) {
      if (one == others) continue;
      CAPTURE(std::string(calls[others].name) + " and " + calls[one].name);
      ThreadWorld world(3);
      std::array<bool, 3> intact{true, true, true};
      const int odd = static_cast<int>((one + others) % 3);
      const Outcome outcome = run(world, [&](Communicator& comm) {
        comm.barrier();
        calls[comm.rank() == odd ? one : others].call(comm, intact[comm.rank()]);
      });
      check_same_error(outcome, ErrorCode::comm, "the ranks ");
      CHECK(intact == std::array<bool, 3>{true, true, true});
      longest = std::max(longest, std::chrono::duration<double>(outcome.time).count());
      ++kinds;
    }
  }
  MESSAGE(kinds << " kinds, reported after " << longest << " s at most");
  CHECK(kinds == 156);
  CHECK(longest < 2);
}

TEST_CASE("threads: an invalid argument on one rank ends all") {
  ThreadWorld world(3);
  const Outcome outcome = run(world, [](Communicator& comm) {
    Bytes mine(4);
    comm.broadcast(mine, comm.rank() == 1 ? 3 : 0);
  });
  CHECK(outcome.codes[1] == ErrorCode::invalid_argument);
  CHECK(outcome.root_cause ==
        "broadcast got root 3 (there are 3 ranks); use 0 <= root < world_size");
  check_same_error(outcome, ErrorCode::comm, "rank 1 ended: broadcast got root 3", 1);
}

TEST_CASE("threads: an invalid argument ends the others even if its rank continues") {
  ThreadWorld world(2);
  const Outcome outcome = run(world, [](Communicator& comm) {
    Bytes mine(4);
    if (comm.rank() == 0) return comm.broadcast(mine, 0);
    CHECK_THROWS_AS(comm.broadcast(mine, -1), Error);
  });
  check_same_error(outcome, ErrorCode::comm, "rank 1 ended: broadcast got root -1", 1);
}

TEST_CASE("threads: the error of the rank that aborted is rethrown, even if it throws last") {
  ThreadWorld world(2);
  std::atomic<bool> aborted{false};
  const Outcome outcome = run(world, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      comm.abort("no space on the disk");
      while (!aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      throw std::runtime_error("while writing params.bin");
    }
    try {
      comm.barrier();
    } catch (const Error&) {
      aborted = true;
      throw;
    }
  });
  CHECK(outcome.root_cause == "while writing params.bin");
}

TEST_CASE("threads: the error of the throwing rank is rethrown, not its consequences") {
  // Rank 0 fails because of rank 1, and both end at about the same time.
  for (int round = 0; round < 50; ++round) {
    ThreadWorld world(2);
    const Outcome outcome = run(world, [&](Communicator& comm) {
      if (comm.rank() == 1) throw std::runtime_error("boom");
      comm.barrier();
    });
    CHECK(outcome.root_cause == "boom");
  }
}

TEST_CASE("threads: a rank that throws is named, and its error is rethrown") {
  for (const int world_size : {2, 3, 8}) {
    ThreadWorld world(world_size);
    const int thrower = world_size - 1;
    const Outcome outcome = run(world, [&](Communicator& comm) {
      comm.barrier();
      if (comm.rank() == thrower) throw std::runtime_error("boom");
      comm.barrier();
    });
    CHECK(outcome.root_cause == "boom");
    check_same_error(outcome, ErrorCode::comm, "rank " + std::to_string(thrower) + " ended: boom",
                     thrower);
  }
}

TEST_CASE("threads: an exception of any type ends all") {
  ThreadWorld world(2);
  int caught = 0;
  try {
    run_ranks(world, [](Communicator& comm) {
      if (comm.rank() == 1) throw 42;
      comm.barrier();
    });
  } catch (int number) {
    caught = number;
  }
  CHECK(caught == 42);
}

TEST_CASE("threads: abort reaches waiting and later ranks") {
  ThreadWorld world(3);
  std::atomic<bool> aborted{false};
  const Outcome outcome = run(world, [&](Communicator& comm) {
    if (comm.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      comm.abort("no space on the disk");
      aborted = true;
      return;
    }
    while (comm.rank() == 2 && !aborted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    comm.barrier();
  });
  check_same_error(outcome, ErrorCode::comm, "rank 0 ended: no space on the disk", 0);
}

TEST_CASE("threads: a rank that never arrives is named within the time limit") {
  ThreadWorld world(4, short_limit);
  std::atomic<int> failed{0};
  const Outcome outcome = run(world, [&](Communicator& comm) {
    comm.barrier();
    const auto begin = std::chrono::steady_clock::now();
    if (comm.rank() == 2) {
      while (failed < 3) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        REQUIRE(std::chrono::steady_clock::now() - begin < promptly);
      }
    }
    Bytes mine(4);
    try {
      comm.broadcast(mine, 0);
    } catch (const Error&) {
      ++failed;
      throw;
    }
  });
  // The late rank gets the same error as those that waited for it.
  check_same_error(outcome, ErrorCode::timeout,
                   "rank 2 did not arrive at broadcast #2 from root 0 within 200 ms (");
  CHECK(outcome.time >= short_limit);
}

TEST_CASE("threads: several ranks that never arrive") {
  ThreadWorld world(5, short_limit);
  const Outcome outcome = run(world, [&](Communicator& comm) {
    if (comm.rank() % 2 == 0) std::this_thread::sleep_for(4 * short_limit);
    comm.barrier();
  });
  check_same_error(outcome, ErrorCode::timeout,
                   "ranks 0, 2 and 4 did not arrive at barrier #1 within 200 ms (");
}

TEST_CASE("threads: the first error is rethrown, not a later one of a late rank") {
  ThreadWorld world(3, short_limit);
  const Outcome outcome = run(world, [&](Communicator& comm) {
    if (comm.rank() == 2) {
      std::this_thread::sleep_for(4 * short_limit);
      throw std::runtime_error("boom");
    }
    comm.barrier();
  });
  CHECK(outcome.root_cause.find("rank 2 did not arrive at barrier #1 within 200 ms (") == 0);
}

TEST_CASE("threads: a failed world stays failed") {
  ThreadWorld world(3, short_limit);
  const std::string first = run(world, [](Communicator& comm) {
                              if (comm.rank() == 1) throw std::runtime_error("boom");
                              comm.barrier();
                            }).texts[0];
  CHECK(first.find("rank 1 ended: boom") == 0);
  const Outcome again = run(world, [](Communicator& comm) { comm.barrier(); });
  CHECK(again.time < short_limit);
  CHECK(again.texts == std::vector<std::string>(3, first));
  std::string kept;
  try {
    world.communicator(1)->barrier();
  } catch (const Error& error) {
    kept = error.what();
  }
  CHECK(kept == first);
}

TEST_CASE("threads: a rank that leaves early is named at once") {
  const auto leave_early = [](int leaver, bool leave_late) {
    ThreadWorld world(3);
    const Outcome outcome = run(world, [&](Communicator& comm) {
      comm.barrier();
      if ((comm.rank() == leaver) == leave_late)
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
      if (comm.rank() != leaver) comm.barrier();
    });
    check_same_error(outcome, ErrorCode::comm,
                     "rank " + std::to_string(leaver) + " left without calling barrier #2 (",
                     leaver);
  };
  for (const int leaver : {0, 1, 2}) {
    leave_early(leaver, false);  // left before the others call
    leave_early(leaver, true);   // left while they wait
  }
}
