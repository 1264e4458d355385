#pragma once
// The groups of ranks that take part in a step, and integers combined over all of them (R5, R14).
// An absent group has one rank.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::reference {

inline int size_of(const Communicator* group) { return group == nullptr ? 1 : group->world_size(); }
inline int rank_in(const Communicator* group) { return group == nullptr ? 0 : group->rank(); }

/// Data ranks of the step, those of every instance.
inline int data_ranks(const OptimizerSetup& setup) {
  return size_of(setup.replicas) * size_of(setup.comm);
}

/// Data rank of a rank of this instance.
inline int data_rank(const OptimizerSetup& setup, int rank) {
  return rank_in(setup.replicas) * size_of(setup.comm) + rank;
}

inline int tp_size(const OptimizerSetup& setup) { return size_of(setup.tp); }

/// Reduces over one group after the other; if the groups form a grid, that is over all ranks of the
/// grid. Collective.
inline void all_reduce(std::initializer_list<Communicator*> groups, Span<std::uint64_t> words,
                       IntegerReduce op) {
  for (Communicator* const group : groups) {
    if (group != nullptr) group->all_reduce(words, op);
  }
}

/// The same for structs of 64-bit integers, which are added.
template <class T>
void add_over(std::initializer_list<Communicator*> groups, std::vector<T>& structs) {
  std::vector<std::uint64_t> words(structs.size() * sizeof(T) / sizeof(std::uint64_t));
  std::ranges::copy(std::as_bytes(Span<const T>(structs)),
                    std::as_writable_bytes(Span<std::uint64_t>(words)).begin());
  all_reduce(groups, words, IntegerReduce::sum);
  std::ranges::copy(std::as_bytes(Span<const std::uint64_t>(words)),
                    std::as_writable_bytes(Span<T>(structs)).begin());
}

}  // namespace zeroproof::reference
