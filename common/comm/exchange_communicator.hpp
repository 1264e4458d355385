#pragma once
// The five collectives written out as one: every rank has bytes for, and expects bytes from, every rank.

#include <string>

#include "common/comm/collective_call.hpp"
#include "common/comm/communicator.hpp"

namespace zeroproof {

/// Base of the communicators of this folder: checks the arguments, describes the call, and leaves one
/// function to the derived class. A wrong argument throws Error(ErrorCode::invalid_argument) here and aborts
/// the other ranks, which would otherwise wait for this one.
class ExchangeCommunicator : public Communicator {
 public:
  void all_to_all(Span<const Span<const std::byte>> send, Span<const Span<std::byte>> recv) final;
  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) final;
  void broadcast(Span<std::byte> data, int root) final;
  void all_reduce(Span<std::uint64_t> data, IntegerReduce op) final;
  void barrier() final;

 protected:
  /// Compares `call` (all but its sequence number is set) with those of the other ranks, then moves send[d]
  /// to recv[rank()] of rank d. The buffers are free for reuse when it returns or throws.
  virtual void exchange(CollectiveCall call, Span<const Span<const std::byte>> send,
                        Span<const Span<std::byte>> recv) = 0;

 private:
  void run(CollectiveCall call, Span<const Span<const std::byte>> send, Span<const Span<std::byte>> recv);
  void require(bool condition, const std::string& problem, const std::string& why, const std::string& remedy);
};

/// Copies a block to one of the same size. Nothing happens if both are the same block or empty.
void copy_block(Span<const std::byte> from, Span<std::byte> to);

}  // namespace zeroproof
