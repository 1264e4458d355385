#include "common/checkpoint/own_pieces.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"

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

OwnPiece scales_of(const OwnPiece& own, const FlatLayout& whole) {
  static_assert(scale_block_numel == state_block_numel);
  const TensorSlot& slot = whole.tensors()[static_cast<std::size_t>(own.piece.tensor)];
  const auto block_from = [](std::int64_t element) {
    return (element + state_block_numel - 1) / state_block_numel;
  };
  OwnPiece scales = own;
  scales.piece.first = block_from(own.piece.first);
  scales.piece.numel = block_from(own.piece.first + own.piece.numel) - scales.piece.first;
  scales.piece.row_numel = scales.piece.row_stride = block_from(slot.numel);
  scales.piece.offset = 0;
  scales.local_begin = slot.begin / state_block_numel + scales.piece.first;
  return scales;
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

std::vector<float> widened(const OwnPiece& own, const ExposedBuffer& buffer) {
  std::vector<float> values(static_cast<std::size_t>(own.piece.numel));
  const std::int64_t begin = place_of(own, buffer);
  visit_format(buffer.view.dtype, [&](auto format) {
    using T = typename decltype(format)::type;
    if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, fp16> || std::is_same_v<T, e4m3>) {
      const T* const codes = static_cast<const T*>(buffer.view.data) + begin;
      std::transform(codes, codes + own.piece.numel, values.begin(), [](T code) { return to_float(code); });
    } else {
      fail(ErrorCode::internal, "state of " + std::string(decltype(format)::name) + " was to be widened",
           "it is kept in bf16, fp16 or e4m3", "report it with the command line");
    }
  });
  return values;
}

Span<const float> elements_of(const OwnPiece& own, const ExposedBuffer& buffer) {
  return {static_cast<const float*>(buffer.view.data) + place_of(own, buffer),
          static_cast<std::size_t>(own.piece.numel)};
}

}  // namespace zeroproof
