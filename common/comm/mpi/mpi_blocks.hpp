#pragma once
// The data of one collective in transit between all ranks (internal to the MPI communicator).

#include <cstddef>
#include <vector>

#include "common/base/span.hpp"
#include "common/comm/mpi/mpi_transport.hpp"

namespace zeroproof {

/// Moves one block to and one from every other rank, each in pieces of at most max_message_bytes, one at a
/// time. Both sides split a block the same way, so pieces need no header.
class MpiBlocks {
 public:
  MpiBlocks(MpiTransport& transport, std::size_t max_message_bytes);

  /// Shapes   send, recv: [world_size]; the sizes have been compared before. The own block is copied at once.
  void start(Span<const Span<const std::byte>> send, Span<const Span<std::byte>> recv);

  /// Advances all transfers that can advance; returns true if any did.
  bool progress();

  bool complete(int rank) const;

 private:
  template <class Byte>
  struct Block {
    Span<Byte> data;
    std::size_t done = 0;
    int handle = -1;  // of the piece in transit
  };
  struct Peer {
    Block<const std::byte> out;
    Block<std::byte> in;
  };

  int start_piece(int rank, Span<const std::byte> piece);
  int start_piece(int rank, Span<std::byte> piece);
  template <class Byte>
  bool advance(int rank, Block<Byte>& block);

  MpiTransport& transport_;
  std::size_t max_message_bytes_;
  std::vector<Peer> peers_;  // [world_size], this rank's own is unused
};

}  // namespace zeroproof
