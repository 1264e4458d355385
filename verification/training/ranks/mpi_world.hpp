#pragma once

#include <memory>

#include "verification/training/ranks/world.hpp"

namespace zeroproof::verification {

/// Initializes MPI in this process if the build has it; keep the object until the end of main.
class MpiLife {
 public:
  MpiLife(int* argc, char*** argv);
  ~MpiLife();
  MpiLife(const MpiLife&) = delete;
  MpiLife& operator=(const MpiLife&) = delete;

  /// Errors: unavailable if MPI connects fewer ranks than the launcher started: each would run
  /// alone.
  void require_all_ranks() const;

  /// Exit code of the whole job if MPI must be aborted at the end.
  void set_exit_code(int code);

 private:
  struct Session;
  std::unique_ptr<Session> session_;
};

/// The world of the MPI job this process belongs to: one rank here. Errors: unavailable without MPI.
std::unique_ptr<World> make_mpi_world(double timeout_s);

}  // namespace zeroproof::verification
