#include "reference/placement.hpp"

#include <string>

#include "common/base/error.hpp"

namespace zeroproof::reference {

bool is_tp_replicated(const OptimizerSetup& setup, std::int64_t tensor) {
  return setup.placement.empty() || setup.placement[static_cast<std::size_t>(tensor)].tp_replicated;
}

void check_placement(const OptimizerSetup& setup) {
  const std::size_t num_tensors = setup.layout->tensors().size();
  ZP_CHECK(setup.placement.empty() || setup.placement.size() == num_tensors, ErrorCode::invalid_argument,
           "the placement covers " + std::to_string(setup.placement.size()) + " tensors",
           "the layout has " + std::to_string(num_tensors), "pass [num_tensors], or nothing");
  for (const TensorPlacement& place : setup.placement) {
    ZP_CHECK(place.begin >= 0 && place.row_numel >= 1 && place.row_stride >= place.row_numel,
             ErrorCode::invalid_argument,
             "a tensor is placed at " + std::to_string(place.begin) + " in rows of " +
                 std::to_string(place.row_numel) + " elements, " + std::to_string(place.row_stride) +
                 " apart",
             "its elements would have no index of their own in the undistributed model",
             "use rows of 1 or more elements that do not overlap");
  }
}

std::vector<Piece> undistributed(const OptimizerSetup& setup, const std::vector<Piece>& pieces) {
  if (setup.placement.empty()) return pieces;
  std::vector<Piece> runs;
  for (const Piece& piece : pieces) {
    const TensorPlacement& place = setup.placement[static_cast<std::size_t>(piece.tensor)];
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
