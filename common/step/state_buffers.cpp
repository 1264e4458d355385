#include "common/step/state_buffers.hpp"

#include <algorithm>
#include <iterator>

namespace zeroproof {

std::vector<StateSlot> kept_slots(const OptimizerHyper& hyper) {
  std::vector<StateSlot> kept;
  std::ranges::copy_if(all_state_slots, std::back_inserter(kept),
                       [&](StateSlot slot) { return keeps(hyper, slot); });
  return kept;
}

}  // namespace zeroproof
