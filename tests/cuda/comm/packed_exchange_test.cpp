// Every part in a message buffer begins at a multiple of 16 bytes: odd lengths, empty parts, unequal
// ranks.

#include <doctest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "common/comm/threads.hpp"
#include "common/comm/wrapped_communicator.hpp"
#include "cuda/comm/exchange/packed_exchange.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::cuda;

constexpr int world = 3;

bool aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

std::byte value(int from, int to, std::int64_t i) {
  return static_cast<std::byte>(31 * from + 7 * to + static_cast<int>(i));
}

/// Bytes that rank `from` sends to rank `to`: odd, and none in some cases.
std::int64_t part_bytes(int from, int to) {
  constexpr std::int64_t bytes[world][world] = {{0, 33, 7}, {15, 0, 0}, {1, 46, 0}};
  return bytes[from][to];
}

/// Memory as stretches of at most 5 bytes, as if other elements were in between.
Stretches scattered(std::vector<std::byte>& memory) {
  Stretches stretches;
  for (std::size_t begin = 0; begin < memory.size(); begin += 5)
    stretches.push_back(
        Span<std::byte>(memory).subspan(begin, std::min<std::size_t>(5, memory.size() - begin)));
  return stretches;
}

struct Buffers {
  MemoryLedger ledger;
  GrowingBuffer out{ledger, MemoryClass::comm_buffer, true};
  GrowingBuffer in{ledger, MemoryClass::comm_buffer, true};
};

/// Keeps the addresses of blocks.
class Addresses final : public WrappedCommunicator {
 public:
  using WrappedCommunicator::WrappedCommunicator;

  void all_to_all(Span<const Span<const std::byte>> send,
                  Span<const Span<std::byte>> recv) override {
    for (const Span<const std::byte> block : send) blocks.push_back(block);
    for (const Span<std::byte> block : recv) blocks.emplace_back(block);
    inner_.all_to_all(send, recv);
  }
  void all_gather(Span<const std::byte> mine, Span<const Span<std::byte>> recv) override {
    for (const Span<std::byte> block : recv) blocks.emplace_back(block);
    inner_.all_gather(mine, recv);
  }

  bool all_aligned() const {
    return std::ranges::all_of(blocks,
                               [](const auto& b) { return b.empty() || aligned(b.data()); });
  }

  std::vector<Span<const std::byte>> blocks;
};

}  // namespace

TEST_CASE("exchange_packed: parts of odd lengths begin at 16 bytes and arrive as sent") {
  ThreadWorld threads(world);
  run_ranks(threads, [&](Communicator& self) {
    const int rank = self.rank();
    Addresses comm(self);
    Buffers buffers;
    std::vector<std::vector<std::byte>> memory(world);
    std::vector<Stretches> send(world);
    std::vector<std::int64_t> receive;
    std::int64_t in = 0, out = 0;
    for (int peer = 0; peer < world; ++peer) {
      for (std::int64_t i = 0; i < part_bytes(rank, peer); ++i)
        memory[peer].push_back(value(rank, peer, i));
      send[peer] = scattered(memory[peer]);
      receive.push_back(part_bytes(peer, rank));
      in += next_part(receive.back());
      out += send[peer].size() > 1 ? next_part(part_bytes(rank, peer)) : 0;
    }
    const auto arrived = exchange_packed(comm, send, receive, buffers.out, buffers.in);
    // A part of one stretch is sent from its place.
    for (std::size_t peer = 0; peer < world; ++peer) {
      if (send[peer].size() > 1) CHECK(aligned(comm.blocks[peer].data()));
      if (receive[peer] > 0) CHECK(aligned(arrived[peer].data()));
      REQUIRE(numel(arrived[peer]) == receive[peer]);
      for (std::int64_t i = 0; i < receive[peer]; ++i)
        REQUIRE(arrived[peer][i] == value(static_cast<int>(peer), rank, i));
    }
    CHECK(buffers.ledger.use().now[static_cast<std::size_t>(MemoryClass::comm_buffer)] == in + out);
  });
}

TEST_CASE("gather_packed: scattered parts of odd lengths begin at 16 bytes") {
  ThreadWorld threads(world);
  run_ranks(threads, [&](Communicator& self) {
    const int rank = self.rank();
    Addresses comm(self);
    Buffers buffers;
    constexpr std::array<std::int64_t, world> lengths = {17, 0, 27};
    std::vector<std::vector<std::byte>> memory(world);
    std::vector<Stretches> places;
    for (std::size_t of = 0; of < world; ++of) {
      memory[of].resize(lengths[of]);
      places.push_back(scattered(memory[of]));
    }
    for (std::int64_t i = 0; i < lengths[rank]; ++i) memory[rank][i] = value(rank, rank, i);
    gather_packed(comm, places[rank], places, buffers.in);
    CHECK(comm.all_aligned());
    for (int of = 0; of < world; ++of) {
      for (std::int64_t i = 0; i < lengths[of]; ++i) REQUIRE(memory[of][i] == value(of, of, i));
    }
    CHECK(buffers.ledger.use().now[static_cast<std::size_t>(MemoryClass::comm_buffer)] == 32 + 32);
  });
}
