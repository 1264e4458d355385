#pragma once
// mpi.h, for the files that call MPI (internal to the MPI communicator).

// The C interface is all that is used; the old C++ one would need a library of its own.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <string>

namespace zeroproof {

/// Throws Error(ErrorCode::comm) with MPI's own words unless the code is MPI_SUCCESS.
void check_mpi(int code, const std::string& what);

}  // namespace zeroproof
