#pragma once
// Groups, shared windows and sums of floats against brute force, for every kind of communicator.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm_cases.hpp"

namespace zeroproof_test {

/// The number of colourings below; the first puts all ranks into one group, the second each into its own.
constexpr int num_colourings = 5;

inline int colour_of(int colouring, int rank) {
  switch (colouring) {
    case 0:
      return 7;
    case 1:
      return 1000 - rank;  // groups are ordered by rank, not by colour
    case 2:
      return rank % 2;
    case 3:
      return rank / 3;  // the last group is smaller
    default:
      return rank == 1 ? 0 : 1;
  }
}

inline std::vector<int> members_of(int colouring, int rank, int world_size) {
  std::vector<int> members;
  for (int other = 0; other < world_size; ++other) {
    if (colour_of(colouring, other) == colour_of(colouring, rank)) members.push_back(other);
  }
  return members;
}

inline bool all_collectives_are_right(Communicator& comm, std::int64_t round) {
  bool right = all_to_all_is_right(comm, round);
  right &= all_gather_is_right(comm, round, round % 2 == 0);
  right &= broadcast_is_right(comm, round);
  right &= all_reduce_is_right(comm, round, IntegerReduce::sum);
  comm.barrier();
  return right;
}

/// The group has the expected members, in their order, and they exchange data only with each other.
inline bool group_is_right(Communicator& group, const std::vector<int>& members,
                           int rank_in_parent) {
  std::vector<std::uint64_t> ranks(members.size(), 0);
  if (group.world_size() != static_cast<int>(members.size())) return false;
  if (members[group.rank()] != rank_in_parent) return false;
  ranks[group.rank()] = static_cast<std::uint64_t>(rank_in_parent) + 1;
  group.all_reduce(ranks, IntegerReduce::bitwise_or);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] != static_cast<std::uint64_t>(members[i]) + 1) return false;
  }
  return true;
}

/// Every colouring; the parent is used while its groups live, and groups are split again.
inline bool groups_are_right(Communicator& comm, std::int64_t round) {
  bool right = true;
  for (int colouring = 0; colouring < num_colourings; ++colouring) {
    const std::vector<int> members = members_of(colouring, comm.rank(), comm.world_size());
    const auto group = comm.split(colour_of(colouring, comm.rank()));
    right &= group_is_right(*group, members, comm.rank());
    right &= all_collectives_are_right(*group, round + colouring);
    right &= all_collectives_are_right(comm, round + colouring);
    const auto inner = group->split(group->rank() % 2);
    right &= inner->world_size() == (group->world_size() + 1 - group->rank() % 2) / 2;
    right &= inner->rank() == group->rank() / 2;
    right &= all_collectives_are_right(*inner, round);
    right &= all_collectives_are_right(*group, round);
  }
  return right;
}

/// Two groups of a rank at the same time, as the rows and columns of a grid.
inline bool grid_is_right(Communicator& comm, int columns, std::int64_t round) {
  const auto row = comm.split(comm.rank() / columns);
  const auto column = comm.split(comm.rank() % columns);
  bool right = row->rank() == comm.rank() % columns && column->rank() == comm.rank() / columns;
  for (int turn = 0; turn < 3; ++turn) {
    right &= all_collectives_are_right(*row, round + turn);
    right &= all_collectives_are_right(*column, round + turn);
    right &= all_collectives_are_right(comm, round + turn);
  }
  return right;
}

/// Small whole numbers, so that every order of addition gives the same sum; counts are uneven and may be 0.
inline bool float_sum_is_right(Communicator& comm, std::int64_t round, std::int64_t scale = 1) {
  std::vector<std::int64_t> counts;
  std::vector<float> send;
  std::vector<float> want;
  for (int part = 0; part < comm.world_size(); ++part) {
    counts.push_back(scale * count_for(round, part, 0));
    for (std::int64_t i = 0; i < counts.back(); ++i) {
      send.push_back(static_cast<float>(mixed(round, comm.rank(), part, i) % 1000));
      if (part != comm.rank()) continue;
      float sum = 0;
      for (int from = 0; from < comm.world_size(); ++from)
        sum += static_cast<float>(mixed(round, from, part, i) % 1000);
      want.push_back(sum);
    }
  }
  std::vector<float> recv(want.size(), -1.0F);
  comm.native_reduce_scatter(send, counts, recv);
  return recv == want;
}

/// Every rank writes into its own block and, after a fence, reads and overwrites those of the others.
inline bool window_is_right(Communicator& comm, std::int64_t round) {
  const int self = comm.rank();
  const auto size_of = [&](int rank) { return count_for(round, rank, 5); };
  const auto window = comm.shared_window(size_of(self));
  if (!window) return false;
  bool right = true;
  for (int rank = 0; rank < comm.world_size(); ++rank) {
    const Span<std::byte> block = window->of(rank);
    right &= block.size() == static_cast<std::size_t>(size_of(rank));
    right &= reinterpret_cast<std::uintptr_t>(block.data()) % 16 == 0;
    right &=
        std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0xff}; });
  }
  window->fence();
  const Bytes mine = block(round, self, 0, size_of(self));
  std::copy(mine.begin(), mine.end(), window->of(self).begin());
  window->fence();
  for (int rank = 0; rank < comm.world_size(); ++rank) {
    const Bytes want = block(round, rank, 0, size_of(rank));
    right &= std::equal(want.begin(), want.end(), window->of(rank).begin(), window->of(rank).end());
  }
  window->fence();
  // The next rank's block, byte by byte: writes of other ranks must arrive as well.
  const int next = (self + 1) % comm.world_size();
  for (std::byte& byte : window->of(next)) byte = static_cast<std::byte>(self);
  window->fence();
  const int previous = (self + comm.world_size() - 1) % comm.world_size();
  const Span<std::byte> own = window->of(self);
  return right && std::all_of(own.begin(), own.end(),
                              [&](std::byte b) { return b == static_cast<std::byte>(previous); });
}

}  // namespace zeroproof_test
