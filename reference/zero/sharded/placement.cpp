#include "reference/zero/sharded/placement.hpp"

namespace zeroproof::reference {

bool is_tp_replicated(const OptimizerSetup& setup, std::int64_t tensor) {
  return setup.placement.empty() || setup.placement[tensor].tp_replicated;
}

std::vector<Piece> undistributed(const OptimizerSetup& setup, const std::vector<Piece>& pieces) {
  if (setup.placement.empty()) return pieces;
  std::vector<Piece> runs;
  for (const Piece& piece : pieces) {
    const TensorPlacement& place = setup.placement[piece.tensor];
    for (std::int64_t i = 0; i < piece.numel; ++i) {
      const std::int64_t index = place.global(piece.tensor_begin + i);
      const bool follows = i > 0 && index == runs.back().global_begin + runs.back().numel;
      if (follows) {
        runs.back().numel += 1;
      } else {
        runs.push_back({piece.tensor, piece.tensor_begin + i, index, piece.local_begin + i, 1});
      }
    }
  }
  return runs;
}

}  // namespace zeroproof::reference
