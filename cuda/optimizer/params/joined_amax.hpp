#pragma once
// Largest magnitudes of blocks whose elements are on several ranks of an instance (R22), joined in
// the memory space of the communicators.

#include <cstdint>

#include "common/base/span.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/exchange/comm_groups.hpp"

namespace zeroproof::cuda {

/// Whether other ranks of the instance have other elements.
bool joins_amax(const OptimizerSetup& setup, const CommGroups& comm_groups);

/// Number of words that ranks join in one call: half a MiB.
inline constexpr std::int64_t most_joined_words = std::int64_t{1} << 16;

/// Replaces words, [count] in the memory space of comm_groups, by the maximum over the ranks:
/// collective over comm (from stage 1 on) and tp. In stage 0 every rank has collected everything,
/// so the ranks of an instance are not combined. most: words of one call.
void join_amax(const OptimizerSetup& setup, const CommGroups& comm_groups, std::uint64_t* words,
               std::int64_t count, std::int64_t most = most_joined_words);

/// The same for amax in host memory, over the communicators of the setup.
void join_amax(const OptimizerSetup& setup, Span<std::uint32_t> amax,
               std::int64_t most = most_joined_words);

}  // namespace zeroproof::cuda
