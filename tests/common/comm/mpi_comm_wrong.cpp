// Modes of mpi_comm_test in which one rank makes a different call than the others, or none.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#include "comm_mismatches.hpp"
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
  return check_failure(*comm, failure, ErrorCode::comm,
                       "the ranks are not in the same collective: rank");
}

int run_mismatches(int rank) {
  const std::vector<Mismatch> calls = mismatches();
  const auto harness = make_mpi_communicator();
  Checks checks(rank);
  double longest = 0;
  for (std::size_t others = 0; others < calls.size(); ++others) {
    for (std::size_t one = 0; one < calls.size(); ++one) {
      if (one == others) continue;
      const auto comm = make_mpi_communicator();
      comm->barrier();
      bool intact = true;
      const std::size_t mine = rank == static_cast<int>((one + others) % 3) ? one : others;
      const Failure failure = failure_of([&] { calls[mine].call(*comm, intact); });
      const std::string pair = std::string(calls[others].name) + " and " + calls[one].name + ": ";
      checks.check(failure.code == ErrorCode::comm && starts_with(failure.text, "the ranks "),
                   pair + failure.text);
      checks.check(intact, pair + "data moved");
      longest = std::max(longest, failure.time.count());
      std::vector<Bytes> texts(3, Bytes(2000));
      Bytes text(2000);
      std::memcpy(text.data(), failure.text.data(), std::min(failure.text.size(), text.size()));
      harness->all_gather(text, writable(texts));
      for (const Bytes& other : texts)
        checks.check(text == other, pair + "the text differs between ranks");
    }
  }
  checks.check(longest < 2, "reported after " + std::to_string(longest) + " s");
  if (rank == 0)
    std::printf("%zu kinds, reported after %.3f s at most\n", calls.size() * (calls.size() - 1),
                longest);
  return checks.agree(*harness);
}

int run_counts(int rank) {
  const auto comm = make_mpi_communicator();
  Bytes data(rank == bad_rank ? 9 : 8);
  const Failure failure = failure_of([&] { comm->broadcast(data, 0); });
  return check_failure(*comm, failure, ErrorCode::comm,
                       "the ranks disagree about counts: in broadcast #1 from root 0 rank 0 sends "
                       "8 bytes to rank 1, "
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
