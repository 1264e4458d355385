#pragma once
// Name of the loaded MPI library.

#include <string>

namespace zeroproof {

/// "Open MPI v4.1.4", "MPICH 4.0.2": from the library's own version text. May be called before
/// MPI_Init.
std::string mpi_library();

}  // namespace zeroproof
