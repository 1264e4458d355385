#include "common/checkpoint/own_pieces.hpp"

#include <algorithm>

#include "common/base/error.hpp"

namespace zeroproof {

std::vector<CheckpointTensor> checkpoint_tensors(const FlatLayout& whole) {
  std::vector<CheckpointTensor> tensors;
  for (const TensorSlot& slot : whole.tensors()) tensors.push_back({slot.name, slot.shape, slot.begin});
  return tensors;
}

std::vector<OwnPiece> own_pieces(const OwnPlace& rank, const FlatLayout& whole) {
  std::vector<OwnPiece> own;
  if (!rank.first_instance) return own;
  for (const Piece& part : rank.layout.pieces(rank.ranges)) {
    const auto tensor = static_cast<std::size_t>(part.tensor);
    const TensorSlot& slot = whole.tensors()[tensor];
    TensorPlacement place{true, slot.begin, slot.numel, slot.numel};
    if (!rank.placement.empty()) place = rank.placement[tensor];
    if (part.numel == 0 || (place.tp_replicated && !rank.first_tp_rank)) continue;
    OwnPiece piece;
    piece.piece.tensor = part.tensor;
    piece.piece.first = part.global_begin - rank.layout.tensors()[tensor].begin;
    piece.piece.numel = part.numel;
    piece.piece.row_numel = place.row_numel;
    piece.piece.row_stride = place.row_stride;
    piece.piece.offset = place.begin - slot.begin;
    piece.local_begin = part.global_begin;
    own.push_back(piece);
  }
  return own;
}

std::vector<OwnPiece> own_pieces(const OptimizerSetup& setup, const FlatLayout& whole) {
  return own_pieces({*setup.layout, setup.shards->shard(setup.comm->rank()), setup.placement,
                     setup.replicas == nullptr || setup.replicas->rank() == 0,
                     setup.tp == nullptr || setup.tp->rank() == 0},
                    whole);
}

std::int64_t place_of(const OwnPiece& own, const ExposedBuffer& buffer) {
  std::int64_t before = 0;
  for (const FlatRange& range : buffer.ranges) {
    if (range.begin <= own.local_begin && own.local_begin + own.piece.numel <= range.end)
      return before + own.local_begin - range.begin;
    before += range.numel();
  }
  fail(ErrorCode::internal, "a rank does not have elements that it owns",
       "they would be missing in the checkpoint", "report it with the command line");
}

Span<const float> elements_of(const OwnPiece& own, const ExposedBuffer& buffer) {
  return {static_cast<const float*>(buffer.view.data) + place_of(own, buffer),
          static_cast<std::size_t>(own.piece.numel)};
}

}  // namespace zeroproof
