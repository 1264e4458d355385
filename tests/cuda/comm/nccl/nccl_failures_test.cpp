// NCCL communicators with missing calls: every rank ends in time with an error that names the rank
// or the call. Hangs on the device are watched; calls that NCCL has not accepted hang on the host.

#include <doctest.h>

#include "tests/cuda/comm/nccl/nccl_failures_support.hpp"

namespace nccl_failures_test {

using namespace zeroproof;
using namespace zeroproof::copies_test;
using namespace zeroproof::nccl_test;
using cuda::wait_watched;

TEST_CASE("nccl failures: an absent rank is named") {
  std::atomic<int> failed{0};
  check_both_ways(
      "",
      [&](Rank& rank, Communicator& control) {
        failed = 0;
        rank.gather();
        rank.wait();
        control.barrier();
        try {
          if (control.rank() == 2) return stay_away(failed);
          rank.gather();
          rank.wait();
        } catch (const Error&) {
          ++failed;
          throw;
        }
      },
      [](const Outcome& outcome) {
        for (const int rank : {0, 1}) {
          const auto at = static_cast<std::size_t>(rank);
          contains(outcome.texts[at], "failed, after one did not end within 300 ms, rank 2 ");
          contains(outcome.texts[at], "last calls: all_gather #1, all_gather #2; 1 of 2 had ended");
          CHECK(outcome.codes[at] == ErrorCode::timeout);
        }
        CHECK(outcome.texts[2].empty());
      });
  CHECK(complaints().empty());
}

TEST_CASE("nccl failures: a rank with a missing call is named") {
  check_both_ways(
      "",
      [](Rank& rank, Communicator& control) {
        rank.gather();
        if (control.rank() != 1) rank.gather();
        rank.wait();
        control.barrier();
      },
      [](const Outcome& outcome) {
        check_all(outcome,
                  "the ranks are not in the same collective: ranks 0 and 2 call all_gather #4, "
                  "rank 1 calls "
                  "barrier #4");
      });
  CHECK(complaints().empty());
}

TEST_CASE("nccl failures: ranks with different calls are named with their calls") {
  check_both_ways(
      "",
      [](Rank& rank, Communicator& control) {
        rank.gather();
        if (control.rank() == 1)
          rank.broadcast(0);
        else
          rank.gather();
        rank.wait();
      },
      [](const Outcome& outcome) {
        check_all(outcome,
                  "the ranks are not in the same collective: ranks 0 and 2 call all_gather #2, "
                  "rank 1 calls "
                  "broadcast #2 from root 0");
        contains(complaints(), "met");
      });
}

TEST_CASE("nccl failures: ranks with different counts are named with their counts") {
  check_both_ways(
      "",
      [](Rank& rank, Communicator& control) {
        rank.gather(control.rank() == 2 ? 5 : 4);
        rank.wait();
      },
      [](const Outcome& outcome) {
        check_all(outcome,
                  "the ranks disagree about counts: in all_gather #1 rank 0 sends 4 bytes to rank "
                  "2, which "
                  "expects 5");
        contains(complaints(), "met");
      });
}

TEST_CASE("nccl failures: different counts of messages are named too") {
  check_both_ways(
      "",
      [](Rank& rank, Communicator& control) {
        std::vector<Span<const std::byte>> send(ranks);
        std::vector<Span<std::byte>> recv(ranks);
        if (control.rank() == 0) send[1] = on_device<std::byte>(rank.mine, 6);
        if (control.rank() == 1) recv[0] = on_device<std::byte>(rank.all, 7);
        rank.comm->all_to_all(send, recv);
        rank.wait();
        control.barrier();
      },
      [](const Outcome& outcome) {
        // Rank 2 has nothing to wait for; the barrier reports the error to it.
        check_all(outcome, "ranks 0 and 1 call all_gather #4, rank 2 calls barrier #4");
        contains(complaints(), "met");
      });
}

TEST_CASE("nccl failures: a device that hangs is named with the call") {
  check_both_ways(
      "stall=1:2",
      [](Rank& rank, Communicator&) {
        rank.gather();
        rank.broadcast(1);
        rank.gather();
        try {
          rank.wait();
        } catch (const Error&) {
          cuda::device::Event after;  // the device can do other work then
          after.record();
          wait_watched(after, {}, promptly);
          throw;
        }
      },
      [](const Outcome& outcome) {
        check_all(
            outcome,
            "broadcast #2 from root 1 of nccl:3 did not end on ranks 0, 1 and 2 within 300 ms (all "
            "ranks made "
            "the same calls");
        for (const ErrorCode code : outcome.codes) CHECK(code == ErrorCode::timeout);
      });
  CHECK(complaints().empty());
}

}  // namespace nccl_failures_test
