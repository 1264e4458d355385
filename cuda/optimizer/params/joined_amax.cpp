#include "cuda/optimizer/params/joined_amax.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace zeroproof::cuda {
namespace {

bool several(const Communicator* wire) { return wire != nullptr && wire->world_size() > 1; }

/// Calls join(group, first, count) for parts of [0, numel), group by group.
template <class Join>
void for_parts(const OptimizerSetup& setup, Communicator* comm, Communicator* tp,
               std::int64_t numel, std::int64_t most, const Join& join) {
  for (Communicator* const wire : {setup.stage > 0 ? comm : nullptr, tp}) {
    if (!several(wire)) continue;
    for (std::int64_t first = 0; first < numel; first += most)
      join(*wire, first, std::min(most, numel - first));
  }
}

}  // namespace

bool joins_amax(const OptimizerSetup& setup, const CommGroups& comm_groups) {
  return (setup.stage > 0 && several(comm_groups.comm)) || several(comm_groups.tp);
}

void join_amax(const OptimizerSetup& setup, const CommGroups& comm_groups, std::uint64_t* words,
               std::int64_t count, std::int64_t most) {
  for_parts(setup, comm_groups.comm, comm_groups.tp, count, most,
            [&](Communicator& wire, std::int64_t first, std::int64_t part) {
              wire.all_reduce({words + first, static_cast<std::size_t>(part)}, IntegerReduce::max);
            });
}

void join_amax(const OptimizerSetup& setup, Span<std::uint32_t> amax, std::int64_t most) {
  std::vector<std::uint64_t> words;
  for_parts(setup, setup.comm, setup.tp, numel(amax), most,
            [&](Communicator& wire, std::int64_t first, std::int64_t part) {
              const Span<std::uint32_t> mine = amax.subspan(first, part);
              words.assign(mine.begin(), mine.end());
              wire.all_reduce(words, IntegerReduce::max);
              std::ranges::transform(words, mine.begin(),
                                     [](std::uint64_t w) { return static_cast<std::uint32_t>(w); });
            });
}

}  // namespace zeroproof::cuda
