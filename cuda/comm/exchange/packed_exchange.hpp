#pragma once
// Collectives over parts that lie scattered in a buffer: a part that is one stretch of memory travels from where it is
// to where it belongs, every other one through a message buffer.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/comm/communicator.hpp"
#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/comm/exchange/grad_memory.hpp"

namespace zeroproof::cuda {

/// Memory that travels as one message, in this order.
using Stretches = std::vector<Span<std::byte>>;

/// Where the next message begins behind one of so many bytes: each may start with fp32.
constexpr std::int64_t up_to_words(std::int64_t bytes) { return (bytes + 3) / 4 * 4; }

/// Adds what a rank owns of a buffer that starts at global index `base`, elements of `width` bytes.
void append(Stretches& stretches, const RankPart& part, void* buffer, std::int64_t base,
            std::int64_t width);

/// Adds the copies that bring packed memory to the stretches.
void unpack(const std::byte* packed, const Stretches& to, std::vector<Move>& moves);

/// send: [world_size], empty for nothing. recv_bytes: [world_size]. Returns what arrived from every rank, packed in
/// `in`, each from a multiple of 4 bytes on: it may be fp32.
/// Nothing is communicated in a world of one rank.
std::vector<Span<std::byte>> exchange_packed(Communicator& comm, const std::vector<Stretches>& send,
                                             const std::vector<std::int64_t>& recv_bytes,
                                             GrowingBuffer& out, GrowingBuffer& in);

/// places: [world_size] where every rank's part belongs, as many bytes as it sends. mine: this rank's part where it is
/// now, which may be its place. `in` holds the parts of more than one stretch until all have arrived.
void gather_packed(Communicator& comm, const Stretches& mine, const std::vector<Stretches>& places,
                   GrowingBuffer& in);

}  // namespace zeroproof::cuda
