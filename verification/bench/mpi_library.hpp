#pragma once
// The MPI library's own collectives, bare. Not the contract, benchmarks only: the library adds floats in an
// order of its own (R10), and nothing here compares descriptors or keeps time limits, as Communicators do.

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/span.hpp"

namespace zeroproof {

/// All processes of MPI_COMM_WORLD, while an MpiSession lives. Every call, making and destroying included, is
/// collective.
/// Errors: comm if MPI reports one; invalid_argument if a count does not fit into MPI's int or the ranks.
class MpiLibrary {
 public:
  MpiLibrary();
  ~MpiLibrary();
  MpiLibrary(const MpiLibrary&) = delete;
  MpiLibrary& operator=(const MpiLibrary&) = delete;

  /// MPI_Reduce_scatter with MPI_SUM into equal parts.
  /// Shapes   send: [world_size * numel(recv)], no overlap.
  void reduce_scatter(Span<const float> send, Span<float> recv);

  /// MPI_Allreduce with MPI_SUM.
  /// Shapes   send, recv: [numel], no overlap.
  void all_reduce(Span<const float> send, Span<float> recv);

  /// MPI_Allgather in place: the own part is already in its position. Shapes   all: [world_size *
  /// n], part r from rank r.
  void all_gather(Span<std::uint16_t> all);

  void barrier();

  /// "Open MPI v4.1.4"
  static std::string version();

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace zeroproof
