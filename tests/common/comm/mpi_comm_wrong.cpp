// Modes of mpi_comm_test in which one rank calls something else than the others, or nothing.

#include <thread>

#include "mpi_comm_checks.hpp"
#include "mpi_comm_modes.hpp"

namespace zeroproof_test {

int run_mismatch(int rank) {
  const auto comm = make_mpi_communicator();
  Bytes data(8);
  comm->barrier();
  const Failure failure = failure_of([&] {
    if (rank == bad_rank)
      comm->broadcast(data, 1);
    else
      comm->barrier();
  });
  return check_failure(*comm, failure, ErrorCode::comm, "the ranks are not in the same collective: rank");
}

int run_counts(int rank) {
  const auto comm = make_mpi_communicator();
  Bytes data(rank == bad_rank ? 9 : 8);
  const Failure failure = failure_of([&] { comm->broadcast(data, 0); });
  return check_failure(
      *comm, failure, ErrorCode::comm,
      "the ranks disagree about counts: in broadcast #1 from root 0 rank 0 sends 8 bytes to rank 1, "
      "which expects 9 (");
}

int run_throws(int rank) {
  const auto comm = make_mpi_communicator();
  comm->barrier();
  const Failure failure = failure_of([&] {
    if (rank == bad_rank) comm->abort("no space on the disk");
    comm->barrier();
  });
  return check_failure(*comm, failure, ErrorCode::comm, "rank 1 ended: no space on the disk");
}

int run_left(int rank) {
  Checks checks(rank);
  {
    const auto comm = make_mpi_communicator();
    comm->barrier();
    if (rank != bad_rank) {
      const Failure failure = failure_of([&] { comm->barrier(); });
      checks.check(starts_with(failure.text, "rank 1 left without calling barrier #2 ("),
                   "error: " + failure.text);
      checks.check(failure.code == ErrorCode::comm && failure.time < promptly, "code or time");
    }
  }
  return checks.agree(*make_mpi_communicator());
}

int run_absent(int rank) {
  const auto comm = make_mpi_communicator(short_limit);
  comm->barrier();
  if (rank == bad_rank) std::this_thread::sleep_for(short_limit + std::chrono::seconds(1));
  const Failure failure = failure_of([&] { comm->barrier(); });
  return check_failure(*comm, failure, ErrorCode::timeout,
                       "rank 1 did not arrive at barrier #2 within 1 s (");
}

}  // namespace zeroproof_test
