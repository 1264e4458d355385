#pragma once
// The modes of mpi_comm_test, described there. Each returns the exit code of its rank.

namespace zeroproof_test {

// mpi_comm_right.cpp
int run_collectives(int rank);
int run_groups(int rank);
int run_large(int rank);
int run_slow(int rank);
int run_hosts(int rank);

// mpi_comm_wrong.cpp
int run_mismatch(int rank);
int run_mismatches(int rank);
int run_counts(int rank);
int run_throws(int rank);
int run_left(int rank);
int run_absent(int rank);

// mpi_comm_wrong_groups.cpp
int run_group_throws(int);
int run_group_mismatch(int rank);
int run_group_left(int rank);
int run_group_absent(int rank);
int run_group_signal(int rank, int signal, bool native);

// mpi_comm_silent.cpp
int run_signal(int rank, int signal, bool busy);
int run_cut(int rank);

}  // namespace zeroproof_test
