#pragma once
// The elements of the undistributed state that a rank writes, such that every element is written
// once.

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

/// Position of a rank, without the communicators of a setup.
struct OwnPlace {
  const FlatLayout& layout;       ///< of its TP rank
  std::vector<FlatRange> ranges;  ///< with state on this rank
  Span<const TensorPlacement>
      placement;  ///< [num_tensors], or empty: the layout is the undistributed one
  bool first_instance = true;
  bool first_tp_rank = true;
};

std::vector<OwnPiece> own_pieces(const OwnPlace& place, const FlatLayout& whole);

/// The elements this rank owns (setup.shards), of the first instance; tensors that every TP rank
/// has completely, on the first TP rank only. Empty on all other ranks. Padding has no owner.
///
/// whole    the undistributed layout; setup.layout has the same tensors, or the TP rank's part of each.
std::vector<OwnPiece> own_pieces(const OptimizerSetup& setup, const FlatLayout& whole);

/// The blocks of state (R25) whose first element is in a piece, so that every scale is written
/// once: non-empty pieces that count blocks of the undistributed tensor, as local_begin does. tp:
/// ranks that have parts of tensors.
std::vector<OwnPiece> scales_of(const OwnPiece& own, const FlatLayout& whole, int tp);
/// The same for several pieces.
std::vector<OwnPiece> scales_of(const std::vector<OwnPiece>& own, const FlatLayout& whole, int tp);

/// Offset of the elements of a piece in a buffer that holds `ranges` of the rank's flat numbering
/// one after another (ExposedBuffer); for scales, in one that holds blocks of the undistributed
/// numbering. Errors: internal, if the buffer does not hold all of them contiguously.
std::int64_t place_of(const OwnPiece& own, const ExposedBuffer& buffer);

/// Those elements of a buffer of bf16, fp16 or e4m3, decoded exactly.
std::vector<float> widened(const OwnPiece& own, const ExposedBuffer& buffer);

/// Those elements of an fp32 buffer.
Span<const float> elements_of(const OwnPiece& own, const ExposedBuffer& buffer);

}  // namespace zeroproof
