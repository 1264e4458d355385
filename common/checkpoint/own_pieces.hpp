#pragma once
// Which elements of the undistributed state a rank writes, so that every element is written once.

#include <cstdint>
#include <vector>

#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/step/distributed_optimizer.hpp"

namespace zeroproof {

/// Elements of one tensor. `piece` has no state and no file yet.
struct OwnPiece {
  CheckpointPiece piece;
  std::int64_t local_begin = 0;  ///< in the TP rank's flat numbering (setup.layout)
};

/// Tensors of the undistributed model.
std::vector<CheckpointTensor> checkpoint_tensors(const FlatLayout& whole);

/// Where a rank stands, without the communicators of a setup.
struct OwnPlace {
  const FlatLayout& layout;       ///< of its TP rank
  std::vector<FlatRange> ranges;  ///< that it keeps state for
  Span<const TensorPlacement>
      placement;  ///< [num_tensors], or empty: the layout is the undistributed one
  bool first_instance = true;
  bool first_tp_rank = true;
};

std::vector<OwnPiece> own_pieces(const OwnPlace& place, const FlatLayout& whole);

/// What this rank owns (setup.shards), of the first instance; of tensors that every TP rank has whole, on the first TP
/// rank only. Empty on all other ranks. Padding is nobody's.
///
/// whole    the undistributed layout; setup.layout has the same tensors, or the TP rank's part of each.
std::vector<OwnPiece> own_pieces(const OptimizerSetup& setup, const FlatLayout& whole);

/// The blocks of state (R25) whose first element a piece has, so that every scale is written once: pieces that count
/// blocks of the undistributed tensor, as local_begin does, none of them empty. tp: ranks that have parts of tensors.
std::vector<OwnPiece> scales_of(const OwnPiece& own, const FlatLayout& whole, int tp);
/// Those of several pieces.
std::vector<OwnPiece> scales_of(const std::vector<OwnPiece>& own, const FlatLayout& whole, int tp);

/// Where the elements of a piece begin, in a buffer that holds `ranges` of the rank's flat numbering one after another
/// (ExposedBuffer); scales, in one that holds blocks of the undistributed numbering. Errors: internal, if it does not
/// hold all of them side by side.
std::int64_t place_of(const OwnPiece& own, const ExposedBuffer& buffer);

/// Those elements of a buffer of bf16, fp16 or e4m3, exactly.
std::vector<float> widened(const OwnPiece& own, const ExposedBuffer& buffer);

/// Those elements of a buffer of fp32.
Span<const float> elements_of(const OwnPiece& own, const ExposedBuffer& buffer);

}  // namespace zeroproof
