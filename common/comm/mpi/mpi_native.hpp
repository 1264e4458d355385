#pragma once
// Collectives left to the MPI library (internal to the MPI communicator).

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof {

/// Name in the message of a call that takes longer than the limit and cannot be cancelled.
struct BlockingLimit {
  std::string what;
  std::chrono::milliseconds limit;
};

/// MPI's communicator of the same ranks, made when first needed.
///
/// The library's collectives wait inside MPI, with the lock of all MPI calls, and cannot be
/// cancelled. Therefore all ranks must meet first, and a process in which one takes longer than the
/// limit prints a message and ends with exit code 5, upon which the launcher ends the others. Two
/// of them must not run in two threads of one process at the same time: the ranks could wait for
/// each other.
class MpiNative {
 public:
  /// in_world: [world_size] the ranks; tag: not used by messages between them.
  MpiNative(std::vector<int> in_world, int tag);
  ~MpiNative();

  /// MPI_Reduce_scatter with MPI_SUM. Arguments as in Communicator; max_message_bytes sets how much one call of
  /// MPI moves.
  void reduce_scatter(Span<const float> send, Span<const std::int64_t> counts, Span<float> recv,
                      std::int64_t max_message_bytes, const BlockingLimit& limit);

  /// True if this rank shares memory with all others.
  bool all_share_memory(const BlockingLimit& limit);

  /// Collective: frees MPI's communicators. Without it they exist until MPI ends, as after a
  /// failure.
  void free();

  struct Handles;
  Handles& handles(const BlockingLimit& limit);

 private:
  std::vector<int> in_world_;
  int tag_;
  std::unique_ptr<Handles> handles_;
};

}  // namespace zeroproof
