#include <doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm_cases.hpp"
#include "common/base/error.hpp"
#include "common/comm/threads.hpp"
#include "thread_outcome.hpp"

using zeroproof::Communicator;
using zeroproof::Error;
using zeroproof::ErrorCode;
using zeroproof::ThreadWorld;
using zeroproof_test::Bytes;
using zeroproof_test::check_same_error;
using zeroproof_test::Outcome;
using zeroproof_test::run;
using zeroproof_test::short_limit;

namespace {

/// Ranks 0, 2, 4 of five are one group, ranks 1 and 3 the other.
Outcome run_five(const std::function<void(Communicator& world, Communicator& group)>& work,
                 std::chrono::milliseconds limit = zeroproof::default_comm_timeout) {
  ThreadWorld world(5, limit);
  return run(world, [&](Communicator& comm) {
    const auto group = comm.split(comm.rank() % 2);
    work(comm, *group);
  });
}

}  // namespace

TEST_CASE("groups: a rank that throws in a group ends the other groups and the world") {
  const Outcome outcome = run_five([](Communicator& comm, Communicator& group) {
    if (comm.rank() == 2) throw std::runtime_error("boom");
    if (comm.rank() == 3) comm.barrier();  // the others wait in their groups
    group.barrier();
    group.barrier();
  });
  CHECK(outcome.root_cause == "boom");
  check_same_error(outcome, ErrorCode::comm, "rank 2 ended: boom", 2);
}

TEST_CASE("groups: an abort in a group names the rank in both numberings") {
  const Outcome outcome = run_five([](Communicator& comm, Communicator& group) {
    if (comm.rank() == 4) return group.abort("no space on the disk");
    if (comm.rank() == 1) comm.barrier();
    group.barrier();
    group.barrier();
  });
  check_same_error(outcome, ErrorCode::comm,
                   "rank 2 (rank 4 of the world) ended: no space on the disk (", 4);
}

TEST_CASE("groups: an abort of the world reaches ranks that wait in a group within a group") {
  ThreadWorld world(5);
  const Outcome outcome = run(world, [](Communicator& comm) {
    const auto group = comm.split(comm.rank() % 2);
    const auto inner = group->split(0);
    if (comm.rank() == 0) return comm.abort("no space on the disk");
    if (comm.rank() % 2 == 1) {  // this group is complete: it continues until the failure arrives
      while (true) inner->barrier();
    }
    inner->barrier();
  });
  check_same_error(outcome, ErrorCode::comm, "rank 0 ended: no space on the disk (", 0);
}

TEST_CASE("groups: a rank that never arrives is named within the time limit") {
  const Outcome outcome = run_five(
      [](Communicator& comm, Communicator& group) {
        while (comm.rank() % 2 == 0)
          group.barrier();  // this group continues until the failure arrives
        if (comm.rank() == 3) std::this_thread::sleep_for(4 * short_limit);
        group.barrier();
      },
      short_limit);
  check_same_error(outcome, ErrorCode::timeout,
                   "rank 1 (rank 3 of the world) did not arrive at barrier #1 within 200 ms (");
  CHECK(outcome.time >= short_limit);
}

TEST_CASE("groups: the absent rank is named, not one that waits for it elsewhere") {
  // Rank 0 waits for 2 in their group; 2 waits a little shorter in the world, for rank 1.
  const Outcome outcome = run_five(
      [](Communicator& comm, Communicator& group) {
        if (comm.rank() == 1) std::this_thread::sleep_for(8 * short_limit);
        if (comm.rank() == 0 || comm.rank() == 4) group.barrier();
        if (comm.rank() == 2) std::this_thread::sleep_for(short_limit / 2);
        comm.barrier();
        group.barrier();
      },
      short_limit);
  check_same_error(outcome, ErrorCode::timeout, "rank 1 did not arrive at barrier #");
}

TEST_CASE("groups: ranks that wait for each other in two groups time out as well") {
  const Outcome outcome = run_five(
      [](Communicator& comm, Communicator& group) {
        if (comm.rank() == 2)
          comm.barrier();
        else
          group.barrier();
        comm.barrier();
        group.barrier();
      },
      short_limit);
  check_same_error(outcome, ErrorCode::timeout, "rank");
}

TEST_CASE("groups: disagreements name ranks in both numberings and end the world") {
  const Outcome calls = run_five([](Communicator& comm, Communicator& group) {
    Bytes mine(8);
    if (comm.rank() == 4)
      group.broadcast(mine, 0);
    else
      group.barrier();
    comm.barrier();
  });
  check_same_error(
      calls, ErrorCode::comm,
      "the ranks are not in the same collective: ranks 0 and 1 (ranks 0 and 2 of the world) "
      "call barrier #1, rank 2 (rank 4 of the world) calls broadcast #1 from root 0 (");
  const Outcome counts = run_five([](Communicator& comm, Communicator& group) {
    Bytes mine(comm.rank() == 3 ? 9 : 8);
    if (comm.rank() % 2 == 1) group.broadcast(mine, 0);
    comm.barrier();
  });
  check_same_error(
      counts, ErrorCode::comm,
      "the ranks disagree about counts: in broadcast #1 from root 0 rank 0 (rank 1 of the world) "
      "sends 8 bytes to rank 1 (rank 3 of the world), which expects 9 (");
  const Outcome sums = run_five([](Communicator& comm, Communicator& group) {
    const std::vector<float> send(8);
    std::vector<std::int64_t> parts(group.world_size(), 0);
    parts[0] = comm.rank() == 3 ? 7 : 8;
    parts[1] = 8 - parts[0];
    std::vector<float> recv(parts[group.rank()]);
    if (comm.rank() % 2 == 1) group.native_reduce_scatter(send, parts, recv);
    comm.barrier();
  });
  check_same_error(
      sums, ErrorCode::comm,
      "the ranks disagree about counts: in reduce_scatter #1 rank 0 (rank 1 of the world) sends 0 "
      "bytes to rank 1 (rank 3 of the world), which expects 4, ");
}

TEST_CASE("groups: a rank that leaves its group, or its work, is named at once") {
  const Outcome group_left = run(*std::make_unique<ThreadWorld>(5), [](Communicator& comm) {
    {
      const auto group = comm.split(comm.rank() % 2);
      group->barrier();
      if (comm.rank() != 2) group->barrier();
    }
    comm.barrier();
    comm.barrier();
  });
  check_same_error(group_left, ErrorCode::comm,
                   "rank 1 (rank 2 of the world) left without calling barrier #2 (");
  const Outcome work_left = run_five([](Communicator& comm, Communicator& group) {
    group.barrier();
    while (comm.rank() % 2 == 1)
      group.barrier();  // this group is complete: it continues until the failure arrives
    if (comm.rank() != 2) group.barrier();
  });
  check_same_error(work_left, ErrorCode::comm,
                   "rank 1 (rank 2 of the world) left without calling barrier #2 (", 2);
}

TEST_CASE("groups: a rank whose work has ended is named in its groups") {
  ThreadWorld world(5);
  std::vector<std::unique_ptr<Communicator>> groups(5);
  const Outcome outcome = run(world, [&](Communicator& comm) {
    auto& group = groups[comm.rank()];
    group = comm.split(comm.rank() % 2);
    while (comm.rank() % 2 == 1) group->barrier();
    if (comm.rank() == 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the others wait
    if (comm.rank() != 2) group->barrier();
  });
  check_same_error(outcome, ErrorCode::comm,
                   "rank 1 (rank 2 of the world) left without calling barrier #1 (", 2);
}

TEST_CASE("groups: a colour below 0, and a split that not all ranks make") {
  ThreadWorld world(3);
  const Outcome negative =
      run(world, [](Communicator& comm) { comm.split(comm.rank() == 1 ? -5 : 0); });
  check_same_error(negative, ErrorCode::comm, "rank 1 ended: split got colour -5 (", 1);
  CHECK(negative.codes[1] == ErrorCode::invalid_argument);
  ThreadWorld other(3);
  const Outcome alone = run(other, [](Communicator& comm) {
    if (comm.rank() == 1)
      comm.split(0);
    else
      comm.barrier();
  });
  check_same_error(
      alone, ErrorCode::comm,
      "the ranks are not in the same collective: ranks 0 and 2 call barrier #1, rank 1 calls "
      "split #1 (");
}

TEST_CASE("shared windows: a size that does not fit, and a rank without the call") {
  ThreadWorld world(3);
  const Outcome huge = run(world, [](Communicator& comm) {
    comm.shared_window(comm.rank() == 1 ? std::int64_t{1} << 60 : 0);
  });
  check_same_error(huge, ErrorCode::comm,
                   "rank 0 ended: a window of 1152921504606846976 bytes did not fit", 0);
  ThreadWorld other(3);
  const Outcome alone = run(other, [](Communicator& comm) {
    if (comm.rank() == 1)
      comm.barrier();
    else
      comm.shared_window(8);
  });
  check_same_error(
      alone, ErrorCode::comm,
      "the ranks are not in the same collective: ranks 0 and 2 call shared_window #1, rank 1 "
      "calls barrier #1 (");
}
