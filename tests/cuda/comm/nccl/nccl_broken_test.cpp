// NCCL communicators break on one rank: the others end too, with its reason, and all calls keep
// failing.

#include <doctest.h>

#include "tests/cuda/comm/nccl/nccl_failures_support.hpp"

namespace nccl_broken_test {

using namespace zeroproof;
using namespace zeroproof::copies_test;
using namespace zeroproof::nccl_test;
using cuda::make_nccl_communicator;
using cuda::wait_watched;

TEST_CASE("nccl failures: a call that NCCL refuses ends all ranks") {
  check_both_ways(
      "fail=all_gather:2:1",
      [](Rank& rank, Communicator&) {
        rank.gather();
        rank.gather();
        rank.wait();
      },
      [](const Outcome& outcome) {
        const std::string problem =
            "all_gather #2 failed on nccl:3 (NCCL says: internal error: planned to fail); run it";
        CHECK(outcome.texts[1].rfind(problem, 0) == 0);
        CHECK(outcome.codes[1] == ErrorCode::comm);
        for (const std::size_t rank : {0, 2})
          contains(outcome.texts[rank], "rank 1 ended: " + problem);
        CHECK(outcome.root_cause == outcome.texts[1]);
      });
  CHECK(complaints().empty());
}

TEST_CASE("nccl failures: a failing rank notifies the others before its own error is thrown") {
  std::atomic<int> failed{0};
  check_both_ways(
      "fail=all_gather:2:2",
      [&](Rank& rank, Communicator& control) {
        failed = 0;
        rank.gather();
        control.barrier();
        try {
          rank.gather();
          rank.wait();
        } catch (const Error& error) {
          contains(error.what(), control.rank() == 2 ? "all_gather #2 failed"
                                                     : "rank 2 ended: all_gather #2 failed");
          if (control.rank() == 2) return stay_away(failed);
          ++failed;
        }
      },
      [](const Outcome& outcome) { CHECK(outcome.root_cause.empty()); });
  CHECK(complaints().empty());
}

TEST_CASE("nccl failures: an asynchronous error ends all ranks") {
  check_both_ways(
      "async=1:2",
      [](Rank& rank, Communicator&) {
        rank.gather();
        rank.gather();
        rank.wait();
      },
      [](const Outcome& outcome) {
        contains(outcome.texts[1], "NCCL says: remote error: planned to break");
        for (const std::size_t rank : {0, 2}) contains(outcome.texts[rank], "rank 1 ended: ");
      });
  CHECK(complaints().empty());
}

TEST_CASE("nccl failures: a rank that cannot join, and an absent one") {
  {
    const UsePlan plan("fail=init:1:1");
    const Outcome outcome = run_failing(ranks, [](Communicator& control) { Rank rank(control); });
    contains(outcome.texts[1], "rank 1 could not join nccl:3 (NCCL says: internal error");
    for (const std::size_t rank : {0, 2})
      contains(outcome.texts[rank], "rank 1 ended: rank 1 could not join");
  }
  std::atomic<int> failed{0};
  const Outcome outcome = run_failing(ranks, [&](Communicator& control) {
    if (control.rank() == 2) return stay_away(failed);
    try {
      Rank rank(control);
    } catch (const Error&) {
      ++failed;
      throw;
    }
  });
  for (const std::size_t rank : {0, 1})
    contains(outcome.texts[rank], "rank 2 did not arrive at broadcast #1 from root 0");
  CHECK(complaints().empty());
}

TEST_CASE("nccl failures: a rank that aborts, or leaves") {
  check_both_ways(
      "",
      [](Rank& rank, Communicator& control) {
        if (control.rank() == 1) {
          rank.comm->abort("no space on the disk");
          fail(ErrorCode::io, "no space on the disk", "it is full", "delete something");
        }
        rank.gather();
        rank.wait();
      },
      [](const Outcome& outcome) {
        for (const std::size_t rank : {0, 2})
          contains(outcome.texts[rank], "rank 1 ended: no space on the disk");
      });
  check_both_ways(
      "",
      [](Rank& rank, Communicator& control) {
        if (control.rank() == 1) return;
        rank.gather();
        rank.wait();
      },
      [](const Outcome& outcome) {
        for (const std::size_t rank : {0, 2}) contains(outcome.texts[rank], "rank 1 ");
      });
  CHECK(complaints().empty());
}

TEST_CASE("nccl failures: wrong arguments end all ranks, and the communicator stays broken") {
  check_both_ways(
      "",
      [](Rank& rank, Communicator& control) {
        std::string first, again;
        try {
          rank.broadcast(control.rank() == 1 ? 3 : 0);
          rank.wait();
        } catch (const Error& error) {
          first = error.what();
        }
        try {
          rank.gather();
        } catch (const Error& error) {
          again = error.what();
        }
        contains(first, "broadcast got root 3");
        contains(again, "broadcast got root 3");
        CHECK_THROWS_AS(rank.comm->barrier(), Error);
        CHECK_THROWS_AS(rank.comm->split(0), Error);
      },
      [](const Outcome& outcome) { CHECK(outcome.root_cause.empty()); });
  CHECK(complaints().empty());
}

TEST_CASE("nccl failures: of several communicators the hanging one is named") {
  for (const std::string patience : {"patience=0", "patience=60000"}) {
    const UsePlan plan(patience);
    const Outcome outcome = run_failing(4, [](Communicator& control) {
      const auto all = make_nccl_communicator(control, fake(), nccl_test::short_limit);
      const auto pair = all->split(control.rank() / 2);
      const DeviceBytes mine(8), received(32);
      control.barrier();
      all->all_gather(on_device<std::byte>(mine, 8), blocks_of(received, 4, 8));
      pair->broadcast(on_device<std::byte>(mine, control.rank() == 3 ? 4 : 8), 0);
      wait_watched({all.get(), nullptr, pair.get(), &control}, nccl_test::short_limit);
      control.barrier();
    });
    for (const std::size_t rank : {2, 3})
      contains(outcome.texts[rank],
               "in broadcast #1 from root 0 rank 0 sends 8 bytes to rank 1, which expects 4");
    contains(complaints(), "met");
  }
}

}  // namespace nccl_broken_test
