#include "common/comm/mpi/mpi_blocks.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "common/base/error.hpp"
#include "common/comm/exchange_communicator.hpp"

namespace zeroproof {

MpiBlocks::MpiBlocks(MpiTransport& transport, std::size_t max_message_bytes)
    : transport_(transport),
      max_message_bytes_(max_message_bytes),
      peers_(static_cast<std::size_t>(transport.world_size())) {}

void MpiBlocks::start(Span<const Span<const std::byte>> send, Span<const Span<std::byte>> recv) {
  const std::size_t self = static_cast<std::size_t>(transport_.rank());
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (rank == self) continue;
    peers_[rank].out = {send[rank]};
    peers_[rank].in = {recv[rank]};
  }
  copy_block(send[self], recv[self]);
}

bool MpiBlocks::progress() {
  bool moved = false;
  for (int rank = 0; rank < transport_.world_size(); ++rank) {
    Peer& peer = peers_[rank];
    if (advance(rank, peer.in)) moved = true;
    if (advance(rank, peer.out)) moved = true;
  }
  return moved;
}

bool MpiBlocks::complete(int rank) const {
  const Peer& peer = peers_[rank];
  return peer.out.done == peer.out.data.size() && peer.in.done == peer.in.data.size();
}

int MpiBlocks::start_piece(int rank, Span<const std::byte> piece) {
  return transport_.send(rank, MpiTransport::Kind::data, piece);
}

int MpiBlocks::start_piece(int rank, Span<std::byte> piece) {
  return transport_.receive(rank, MpiTransport::Kind::data, piece);
}

template <class Byte>
bool MpiBlocks::advance(int rank, Block<Byte>& block) {
  if (block.done == block.data.size()) return false;
  const std::size_t piece_bytes = std::min(max_message_bytes_, block.data.size() - block.done);
  if (block.handle < 0) {
    block.handle = start_piece(rank, block.data.subspan(block.done, piece_bytes));
    return true;
  }
  const std::optional<std::int64_t> moved = transport_.finished(block.handle);
  if (!moved) return false;
  block.handle = -1;
  ZP_CHECK(static_cast<std::size_t>(*moved) == piece_bytes, ErrorCode::comm,
           "rank " + std::to_string(rank) + " sent a piece of " + std::to_string(*moved) +
               " bytes instead of " + std::to_string(piece_bytes),
           "data would end up in the wrong place", "use the same max_message_bytes on every rank");
  block.done += piece_bytes;
  return true;
}

}  // namespace zeroproof
