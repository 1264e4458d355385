// mpirun -n N mpi_comm_test [MODE]. Rank 1 fails according to MODE; the other ranks must end in
// time and name it.
//
//   collectives   no failure; every collective against brute force, in whole blocks and in pieces
//   groups        no failure; groups, sums of floats and shared windows against brute force
//   slow          arrives late, but in time, repeatedly
//   large         no failure; one block of more than 2^31 bytes
//   mismatch      calls another collective than the others
//   mismatches    every pair of mismatched calls, one after another
//   throws        aborts with a reason
//   left          ends its communicator while the others still call
//   absent        arrives too late
//   counts        broadcasts another number of bytes
//   killed        dies of SIGKILL: mpirun fails; check the line "rank R names rank 1" of every other rank
//   stopped       is stopped with SIGSTOP: mpirun fails; the same line
//   killed_busy, stopped_busy   the same while data moves
//   group_throws  aborts in a group, while others wait in theirs, in the world, or in a group within a group
//   group_mismatch, group_left, group_absent   the same in a group
//   group_killed, group_stopped   the same signals while others wait in a group
//   hosts         no failure; prints the host of each rank, and checks collectives, groups and windows
//   cut           the link between two hosts fails: the other ranks name the unreachable ones, and end
//   native_stopped  is stopped while the others are inside MPI's own sum: they end with exit code 5
//
// Exit code 0 if all checks passed on all ranks, 1 if not; after a signal: the exit code of mpirun, never 0.

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "common/comm/mpi_communicator.hpp"
#include "mpi_comm_modes.hpp"

using namespace zeroproof;
using namespace zeroproof_test;

namespace {

int run(const std::string& mode, int rank) {
  if (mode == "collectives") return run_collectives(rank);
  if (mode == "slow") return run_slow(rank);
  if (mode == "large") return run_large(rank);
  if (mode == "mismatch") return run_mismatch(rank);
  if (mode == "mismatches") return run_mismatches(rank);
  if (mode == "counts") return run_counts(rank);
  if (mode == "throws") return run_throws(rank);
  if (mode == "left") return run_left(rank);
  if (mode == "absent") return run_absent(rank);
  if (mode == "killed") return run_signal(rank, SIGKILL, false);
  if (mode == "stopped") return run_signal(rank, SIGSTOP, false);
  if (mode == "killed_busy") return run_signal(rank, SIGKILL, true);
  if (mode == "stopped_busy") return run_signal(rank, SIGSTOP, true);
  if (mode == "groups") return run_groups(rank);
  if (mode == "group_throws") return run_group_throws(rank);
  if (mode == "group_mismatch") return run_group_mismatch(rank);
  if (mode == "group_left") return run_group_left(rank);
  if (mode == "group_absent") return run_group_absent(rank);
  if (mode == "group_killed") return run_group_signal(rank, SIGKILL, false);
  if (mode == "group_stopped") return run_group_signal(rank, SIGSTOP, false);
  if (mode == "native_stopped") return run_group_signal(rank, SIGSTOP, true);
  if (mode == "hosts") return run_hosts(rank);
  if (mode == "cut") return run_cut(rank);
  std::fprintf(stderr, "mpi_comm_test: no mode %s\n", mode.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  MpiSession session(&argc, &argv);
  const std::string mode = argc > 1 ? argv[1] : "collectives";
  if (mode != "collectives" && mode != "groups" && session.world_size() < 2) {
    std::fprintf(stderr, "mpi_comm_test: mode %s needs 2 ranks or more\n", mode.c_str());
    return 2;
  }
  try {
    return run(mode, session.rank());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: FAILED with %s\n", session.rank(), error.what());
    return 1;
  }
}
