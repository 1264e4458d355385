#pragma once
// Environment variables set by launchers of MPI jobs.

#include <initializer_list>

namespace zeroproof::verification {

/// The number in the first of these variables that is set; -1 without one.
int number_in_environment(std::initializer_list<const char*> names);

/// True if this process belongs to a job that zeroproof started, not to one of the user's own.
bool started_by_zeroproof();

/// True if this process was started by an MPI launcher: mpirun of Open MPI or MPICH, or srun with PMIx or PMI-2.
bool inside_mpi_job();

/// Ranks of the job this process belongs to; 0 outside one.
int mpi_job_size();

/// Rank of this process, 0 outside a job.
int mpi_job_rank();

}  // namespace zeroproof::verification
