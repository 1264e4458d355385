#pragma once
// mpi.h, for the files that call MPI (internal to the MPI communicator).

#if defined(ZP_MPI_LOADED)
#include "common/comm/mpi/loaded/loaded_mpi.hpp"
#else
// Only the C interface is used; the old C++ one would need a library of its own.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#endif

#include <cstddef>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof {

/// True for MPICH and the libraries made from it.
inline bool is_mpich() {
#if defined(ZP_MPI_LOADED)
  return LoadedMpi::of_process().is_mpich();
#elif defined(MPICH_VERSION)
  return true;
#else
  return false;
#endif
}

/// Throws Error(ErrorCode::comm) with MPI's message unless the code is MPI_SUCCESS.
inline void check_mpi(int code, const std::string& what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(ErrorCode::comm, what + " failed: " + std::string(text, static_cast<std::size_t>(length)),
       "the MPI library rejected or lost the call",
       "check whether the other ranks and the network are alive");
}

}  // namespace zeroproof
