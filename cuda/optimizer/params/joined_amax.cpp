#include "cuda/optimizer/params/joined_amax.hpp"

#include <algorithm>
#include <cstddef>

#include "cuda/optimizer/params/param_scales.hpp"

namespace zeroproof::cuda {
namespace {

bool several(const Communicator* wire) { return wire != nullptr && wire->world_size() > 1; }

}  // namespace

bool joins_amax(const OptimizerSetup& setup, const Wires& wires) {
  return (setup.stage > 0 && several(wires.comm)) || several(wires.tp);
}

void join_amax(const OptimizerSetup& setup, const Wires& wires, std::uint64_t* words, std::int64_t count) {
  for (Communicator* const wire : {setup.stage > 0 ? wires.comm : nullptr, wires.tp}) {
    if (!several(wire)) continue;
    for (std::int64_t first = 0; first < count; first += most_joined_words) {
      const std::int64_t part = std::min(most_joined_words, count - first);
      wire->all_reduce({words + first, static_cast<std::size_t>(part)}, IntegerReduce::max);
    }
  }
}

}  // namespace zeroproof::cuda
