#include "cuda/optimizer/params/joined_amax.hpp"

#include <algorithm>
#include <cstddef>

#include "cuda/optimizer/params/param_scales.hpp"

namespace zeroproof::cuda {
namespace {

bool several(const Communicator* wire) { return wire != nullptr && wire->world_size() > 1; }

}  // namespace

bool joins_amax(const OptimizerSetup& setup, const CommGroups& comm_groups) {
  return (setup.stage > 0 && several(comm_groups.comm)) || several(comm_groups.tp);
}

void join_amax(const OptimizerSetup& setup, const CommGroups& comm_groups, std::uint64_t* words,
               std::int64_t count) {
  for (Communicator* const wire : {setup.stage > 0 ? comm_groups.comm : nullptr, comm_groups.tp}) {
    if (!several(wire)) continue;
    for (std::int64_t first = 0; first < count; first += most_joined_words) {
      const std::int64_t part = std::min(most_joined_words, count - first);
      wire->all_reduce({words + first, static_cast<std::size_t>(part)}, IntegerReduce::max);
    }
  }
}

}  // namespace zeroproof::cuda
