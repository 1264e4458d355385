#pragma once
// The program on this machine that starts ranks as processes, for a program built without one.

#include <string>

namespace zeroproof {

struct MpiLauncher {
  /// intel: like Hydra, whose ranks have MPICH's interface, with other options.
  enum class Kind { open_mpi, hydra, intel };

  std::string path;  ///< empty: there is none
  Kind kind = Kind::open_mpi;
};

/// The first mpirun or mpiexec of PATH, and its kind by the text that it prints for --version. Found
/// once.
const MpiLauncher& mpi_launcher();

}  // namespace zeroproof
