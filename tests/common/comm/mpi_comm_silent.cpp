// Modes of mpi_comm_test in which a rank, or a host, stops responding.

#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>

#include "common/comm/mpi_session.hpp"

#include "mpi_comm_checks.hpp"
#include "mpi_comm_modes.hpp"

namespace zeroproof_test {

/// The remaining ranks cannot run a collective: each prints its own line.
int run_signal(int rank, int signal, bool busy) {
  const auto comm = make_mpi_communicator(signal == SIGSTOP ? std::chrono::milliseconds(2000)
                                                            : default_comm_timeout);
  comm->barrier();
  std::thread signaller;
  if (rank == bad_rank) {
    if (!busy) std::raise(signal);
    signaller = std::thread([signal] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      // While data moves, but not within a call of MPI: a rank that stops while it writes into
      // another's queue in shared memory blocks that one inside of MPI, and the third can only name
      // the blocked one.
      const std::lock_guard lock(mpi_mutex());
      kill(getpid(), signal);
    });
  }
  std::vector<Bytes> blocks(comm->world_size(), Bytes(busy ? 3'000'000 : 0));
  const Failure failure = failure_of([&] {
    do comm->all_gather(blocks[rank], writable(blocks));
    while (busy);
  });
  if (signaller.joinable()) signaller.join();
  if (rank == bad_rank) return 1;  // a stopped rank continues when mpirun ends it
  const bool named = starts_with(failure.text, "rank 1 ") && failure.time < promptly;
  std::printf("rank %d %s rank 1 after %.1f s: %s\n", rank, named ? "names" : "FAILED to name",
              failure.time.count(), failure.text.c_str());
  std::fflush(stdout);
  return 1;
}

int run_cut(int rank) {
  const auto comm = make_mpi_communicator(std::chrono::milliseconds(3000));
  std::vector<Bytes> blocks(comm->world_size(), Bytes(100'000));
  auto begin = std::chrono::steady_clock::now();
  const Failure failure = failure_of([&] {
    for (int round = 0;; ++round) {
      if (round == 10 && rank == 0) std::printf("cut it now\n"), std::fflush(stdout);
      begin = std::chrono::steady_clock::now();
      comm->all_gather(blocks[rank], writable(blocks));
    }
  });
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  // Output through mpirun may be lost: it uses the same link.
  std::ofstream(std::string(std::getenv("ZP_TEST_FOLDER")) + "/rank" + std::to_string(rank))
      << time.count() << " s: " << failure.text << "\n";
  return 5;
}

}  // namespace zeroproof_test
