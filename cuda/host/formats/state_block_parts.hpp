#pragma once
// Mapping of elements to the blocks of state scales (R25).

#include <algorithm>
#include <cstdint>

#include "common/layout/flat_layout.hpp"
#include "common/step/state_buffers.hpp"
#include "common/step/state_format.hpp"

namespace zeroproof::cuda::host {

/// Parts of a run, in their order: the whole blocks, and before and after them parts of blocks that
/// continue elsewhere.
struct StateBlockParts {
  Piece head, whole, tail;  ///< empty where there is none
};

/// begin: first element of the run in the numbering of the blocks. is_last: its last block ends
/// with it, however long it is.
inline StateBlockParts state_block_parts(const Piece& run, std::int64_t begin, bool is_last) {
  const std::int64_t in_block = begin % state_block_numel;
  const std::int64_t head = in_block == 0 ? 0 : std::min(state_block_numel - in_block, run.numel);
  const std::int64_t rest = run.numel - head;
  const std::int64_t tail = is_last ? 0 : std::min((begin + run.numel) % state_block_numel, rest);
  return {run.part(0, head), run.part(head, rest - tail), run.part(run.numel - tail, tail)};
}

/// Whether a buffer kept by the rule has scales.
inline bool any_state_scales(const OptimizerHyper& hyper, const StateFormats& formats) {
  return std::ranges::any_of(kept_slots(hyper),
                             [&](StateSlot slot) { return has_scales(formats.of(slot)); });
}

}  // namespace zeroproof::cuda::host
