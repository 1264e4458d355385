#pragma once
// Collectives over parts that may be scattered in a buffer: a contiguous part is transferred
// directly between its source and its target, every other one through a message buffer.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/comm/communicator.hpp"
#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/comm/exchange/grad_memory.hpp"

namespace zeroproof::cuda {

/// Memory that is sent as one message, in this order.
using Stretches = std::vector<Span<std::byte>>;

/// Offset of the next part in a message buffer after one of this many bytes: every part begins at a
/// multiple of 16 bytes, because kernels move 16 bytes at a time. Bytes in between are in no
/// message, and are neither written nor read.
constexpr std::int64_t next_part(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

/// Adds the elements that a rank owns in a buffer that starts at global index `base`, elements of
/// `width` bytes.
void append(Stretches& stretches, const RankPart& part, void* buffer, std::int64_t base,
            std::int64_t width);

/// Adds the copies from packed memory to the ranges.
void unpack(const std::byte* packed, const Stretches& to, std::vector<Move>& moves);

/// send: [world_size], empty for nothing. recv_bytes: [world_size]. Returns the data received from
/// every rank, packed in `in`. A world of one rank communicates nothing.
std::vector<Span<std::byte>> exchange_packed(Communicator& comm, const std::vector<Stretches>& send,
                                             const std::vector<std::int64_t>& recv_bytes,
                                             GrowingBuffer& out, GrowingBuffer& in);

/// places: [world_size], the target of every rank's part, with as many bytes as the rank sends.
/// mine: current location of this rank's part, which may be its target. `in` holds the parts of
/// several ranges until all have arrived.
void gather_packed(Communicator& comm, const Stretches& mine, const std::vector<Stretches>& places,
                   GrowingBuffer& in);

}  // namespace zeroproof::cuda
