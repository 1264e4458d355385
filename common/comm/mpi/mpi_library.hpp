#pragma once
// Which MPI library this program runs with.

#include <string>

namespace zeroproof {

/// "Open MPI v4.1.4", "MPICH 4.0.2": the library that is loaded, in its own words. May be asked before MPI begins.
std::string mpi_library();

}  // namespace zeroproof
