#pragma once
// Collectives with exact data against brute force, for every kind of communicator. All data follow
// from the round and the ranks, so each rank computes its expected data.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"

namespace zeroproof_test {

using zeroproof::Communicator;
using zeroproof::IntegerReduce;
using zeroproof::Span;
using Bytes = std::vector<std::byte>;

/// Any change of rank, position or round changes about half of the bits.
inline std::uint64_t mixed(std::int64_t round, std::int64_t from, std::int64_t to, std::int64_t i) {
  std::uint64_t x = 0x9e3779b97f4a7c15u;
  for (const std::int64_t part : {round, from, to, i}) {
    x = (x ^ static_cast<std::uint64_t>(part)) * 0xff51afd7ed558ccdu;
    x ^= x >> 33;
  }
  return x;
}

inline Bytes block(std::int64_t round, std::int64_t from, std::int64_t to, std::int64_t num_bytes) {
  Bytes data;
  for (std::int64_t i = 0; i < num_bytes; ++i)
    data.push_back(static_cast<std::byte>(mixed(round, from, to, i)));
  return data;
}

/// Often 0, so that some ranks have nothing for some others, or nothing at all.
inline std::int64_t count_for(std::int64_t round, std::int64_t from, std::int64_t to) {
  const std::uint64_t x = mixed(round, from, to, -1);
  return x % 3 == 0 ? 0 : static_cast<std::int64_t>(x / 3 % 70);
}

inline std::vector<Span<const std::byte>> readable(const std::vector<Bytes>& blocks) {
  return {blocks.begin(), blocks.end()};
}
inline std::vector<Span<std::byte>> writable(std::vector<Bytes>& blocks) {
  return {blocks.begin(), blocks.end()};
}

inline bool all_to_all_is_right(Communicator& comm, std::int64_t round) {
  std::vector<Bytes> send;
  std::vector<Bytes> want;
  std::vector<Bytes> recv;
  for (int peer = 0; peer < comm.world_size(); ++peer) {
    send.push_back(block(round, comm.rank(), peer, count_for(round, comm.rank(), peer)));
    want.push_back(block(round, peer, comm.rank(), count_for(round, peer, comm.rank())));
    recv.emplace_back(want.back().size());
  }
  comm.all_to_all(readable(send), writable(recv));
  return recv == want;
}

inline bool all_gather_is_right(Communicator& comm, std::int64_t round, bool in_place) {
  const Bytes mine = block(round, comm.rank(), 0, count_for(round, comm.rank(), 0));
  std::vector<Bytes> want;
  std::vector<Bytes> recv;
  for (int peer = 0; peer < comm.world_size(); ++peer) {
    want.push_back(block(round, peer, 0, count_for(round, peer, 0)));
    recv.emplace_back(want.back().size());
  }
  Bytes& own = recv[comm.rank()];
  if (in_place) own = mine;
  comm.all_gather(in_place ? own : mine, writable(recv));
  return recv == want;
}

inline bool broadcast_is_right(Communicator& comm, std::int64_t round) {
  const int root = static_cast<int>(round) % comm.world_size();
  const Bytes want = block(round, root, 0, count_for(round, root, 0));
  Bytes data = comm.rank() == root ? want : Bytes(want.size());
  comm.broadcast(data, root);
  return data == want;
}

inline bool all_reduce_is_right(Communicator& comm, std::int64_t round, IntegerReduce op) {
  const std::int64_t count = count_for(round, 0, 0);
  std::vector<std::uint64_t> data;
  std::vector<std::uint64_t> want;
  for (std::int64_t i = 0; i < count; ++i) {
    data.push_back(mixed(round, comm.rank(), 0, i));
    std::uint64_t all = 0;  // neutral for all three operations
    for (int rank = 0; rank < comm.world_size(); ++rank) {
      const std::uint64_t x = mixed(round, rank, 0, i);
      if (op == IntegerReduce::sum) all += x;
      if (op == IntegerReduce::max && x > all) all = x;
      if (op == IntegerReduce::bitwise_or) all |= x;
    }
    want.push_back(all);
  }
  comm.all_reduce(data, op);
  return data == want;
}

}  // namespace zeroproof_test
