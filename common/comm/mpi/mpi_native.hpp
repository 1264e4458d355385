#pragma once
// What is left to the MPI library's own collectives (internal to the MPI communicator).

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof {

/// What a call that cannot be given up is called in the message should it take longer than the limit.
struct BlockingLimit {
  std::string what;
  std::chrono::milliseconds limit;
};

/// MPI's communicator of the same ranks, made when first needed.
///
/// The library's collectives wait inside MPI, with the lock of all MPI calls, and nothing can call them back.
/// Therefore all ranks must have met before, and a process in which one takes longer than the limit says so
/// and ends with exit code 5, upon which the launcher ends the others. Two of them must not run on one process
/// at the same time, in two threads: the ranks could wait for each other.
class MpiNative {
 public:
  /// in_world: [world_size] the ranks; tag: of no message between them.
  MpiNative(std::vector<int> in_world, int tag);
  ~MpiNative();

  /// MPI_Reduce_scatter with MPI_SUM. Arguments as in Communicator; max_message_bytes sets how much one call of
  /// MPI moves.
  void reduce_scatter(Span<const float> send, Span<const std::int64_t> counts, Span<float> recv,
                      std::int64_t max_message_bytes, const BlockingLimit& limit);

  /// True if this rank shares memory with all others.
  bool all_share_memory(const BlockingLimit& limit);

  /// Collective: gives MPI's communicators back. Without it they stay until MPI ends, as after a failure.
  void free();

  struct Handles;
  Handles& handles(const BlockingLimit& limit);

 private:
  std::vector<int> in_world_;
  int tag_;
  std::unique_ptr<Handles> handles_;
};

}  // namespace zeroproof
