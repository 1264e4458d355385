// Modes of mpi_comm_test in which one rank fails in a group.

#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <thread>

#include "mpi_comm_checks.hpp"
#include "mpi_comm_modes.hpp"

namespace zeroproof_test {

namespace {

/// Even ranks are one group, odd ranks the other: the bad rank's group has three members or more if there are 6
/// ranks, and the other group, which is complete, continues until the failure arrives.
struct Groups {
  std::unique_ptr<Communicator> world, group;

  explicit Groups(std::chrono::milliseconds limit = default_comm_timeout)
      : world(make_mpi_communicator(limit)) {}

  /// A slow rank may still be in here when the others have failed already, and then gets the
  /// failure here.
  void enter() { group = world->split(world->rank() % 2); }

  void go_on() {
    group->barrier();
    if (world->rank() == 3) world->barrier();
    while (true) group->barrier();
  }
};

}  // namespace

int run_group_throws(int) {
  Groups comms;
  std::unique_ptr<Communicator> inner;
  const Failure failure = failure_of([&] {
    comms.enter();
    inner = comms.group->split(0);
    if (comms.world->rank() == 5) inner->abort("no space on the disk");
    if (comms.world->rank() == 1) inner->barrier();
    comms.go_on();
  });
  return check_failure(*comms.world, failure, ErrorCode::comm,
                       "rank 2 (rank 5 of the world) ended: no space on the disk");
}

int run_group_mismatch(int rank) {
  Groups comms;
  Bytes data(rank == bad_rank ? 9 : 8);
  const Failure failure = failure_of([&] {
    comms.enter();
    if (rank % 2 == 1) comms.group->broadcast(data, 1);
    comms.go_on();
  });
  return check_failure(
      *comms.world, failure, ErrorCode::comm,
      "the ranks disagree about counts: in broadcast #1 from root 1 rank 1 (rank 3 of the "
      "world) sends 8 bytes to rank 0 (rank 1 of the world), which expects 9 (");
}

int run_group_left(int rank) {
  Groups comms;
  const Failure failure = failure_of([&] {
    comms.enter();
    if (rank == bad_rank) comms.group.reset();
    if (rank == bad_rank) comms.world->barrier();
    if (rank == 3) comms.group->barrier();
    comms.go_on();
  });
  return check_failure(*comms.world, failure, ErrorCode::comm,
                       "rank 0 (rank 1 of the world) left without calling barrier #1 (");
}

int run_group_absent(int rank) {
  Groups comms(short_limit);
  const Failure failure = failure_of([&] {
    comms.enter();
    if (rank == bad_rank) std::this_thread::sleep_for(short_limit + std::chrono::seconds(1));
    // Waits in the world: not the cause for being late in its group.
    if (rank == 3) std::this_thread::sleep_for(short_limit / 5);
    if (rank == 3) comms.world->barrier();
    comms.go_on();
  });
  return check_failure(*comms.world, failure, ErrorCode::timeout,
                       "rank 0 (rank 1 of the world) did not arrive at barrier #1 within 1 s (");
}

/// As run_signal, while the others wait in the group of the bad rank, or continue in theirs.
int run_group_signal(int rank, int signal, bool native) {
  Groups comms(signal == SIGSTOP ? std::chrono::milliseconds(2000) : default_comm_timeout);
  if (native) {
    comms.enter();
    // Long enough that nearly all time is spent inside MPI.
    const std::vector<std::int64_t> counts(comms.group->world_size(), 4'000'000);
    const std::vector<float> send(counts.size() * 4'000'000);
    std::vector<float> sum(4'000'000);
    std::thread([rank, signal] {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      if (rank == bad_rank) kill(getpid(), signal);
    }).detach();
    while (true) comms.group->native_reduce_scatter(send, counts, sum);
  }
  const Failure failure = failure_of([&] {
    comms.enter();
    if (rank == bad_rank) std::raise(signal);
    comms.go_on();
  });
  if (rank == bad_rank) return 1;  // a stopped rank continues when mpirun ends it
  const bool named = (starts_with(failure.text, "rank 0 (rank 1 of the world) ") ||
                      starts_with(failure.text, "rank 1 ")) &&
                     failure.time < promptly;
  std::printf("rank %d %s rank 1 after %.1f s: %s\n", rank, named ? "names" : "FAILED to name",
              failure.time.count(), failure.text.c_str());
  std::fflush(stdout);
  return 1;
}

}  // namespace zeroproof_test
