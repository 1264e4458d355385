#pragma once
// Largest magnitudes of blocks that several ranks of an instance have elements of (R22), joined where the comm_groups move
// them.

#include <cstdint>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/exchange/comm_groups.hpp"

namespace zeroproof::cuda {

/// Whether other ranks of the instance have other elements.
bool joins_amax(const OptimizerSetup& setup, const CommGroups& comm_groups);

/// Brings words, [count] in the memory of those comm_groups, to the maximum over the ranks: collective over comm (from stage
/// 1 on) and tp. In stage 0 every rank has collected everything, and every instance has.
void join_amax(const OptimizerSetup& setup, const CommGroups& comm_groups, std::uint64_t* words,
               std::int64_t count);

}  // namespace zeroproof::cuda
