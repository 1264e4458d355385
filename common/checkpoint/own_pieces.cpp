#include "common/checkpoint/own_pieces.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"

namespace zeroproof {

std::vector<CheckpointTensor> checkpoint_tensors(const FlatLayout& whole) {
  std::vector<CheckpointTensor> tensors;
  for (const TensorSlot& slot : whole.tensors())
    tensors.push_back({slot.name, slot.shape, slot.begin});
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

std::vector<OwnPiece> scales_of(const OwnPiece& own, const FlatLayout& whole, int tp) {
  static_assert(scale_block_numel == state_block_numel);
  const CheckpointPiece& elements = own.piece;
  const TensorSlot& slot = whole.tensors()[elements.tensor];
  const std::int64_t first_block = slot.begin / state_block_numel;
  const auto block_from = [](std::int64_t element) {
    return (element + state_block_numel - 1) / state_block_numel;
  };
  std::vector<OwnPiece> pieces;
  const auto add = [&](std::int64_t first, std::int64_t end, std::int64_t row_numel,
                       std::int64_t row_stride, std::int64_t offset) {
    if (first == end) return;
    OwnPiece scales = own;
    scales.piece.first = first;
    scales.piece.numel = end - first;
    scales.piece.row_numel = row_numel;
    scales.piece.row_stride = row_stride;
    scales.piece.offset = offset;
    scales.local_begin = first_block + scales.piece.element(0);
    pieces.push_back(scales);
  };
  const std::int64_t end = elements.first + elements.numel;
  const std::int64_t blocks = block_from(slot.numel);
  const bool rows = elements.row_numel < elements.row_stride && elements.row_stride < slot.numel;
  const bool equal_parts = elements.row_numel * tp == elements.row_stride;
  if (rows && equal_parts &&
      elements.row_numel % state_block_numel == 0) {  // the same on every TP rank
    add(block_from(elements.first), block_from(end), elements.row_numel / state_block_numel,
        elements.row_stride / state_block_numel, elements.offset / state_block_numel);
    return pieces;
  }
  std::int64_t from = 0, to = 0;  // the current run of neighbouring blocks
  for (std::int64_t at = elements.first; at < end;) {
    const std::int64_t row_end = std::min(end, (at / elements.row_numel + 1) * elements.row_numel);
    const std::int64_t begin = elements.element(at - elements.first);
    const std::int64_t first = block_from(begin), last = block_from(begin + row_end - at);
    if (first > to) {
      add(from, to, blocks, blocks, 0);
      from = first;
    }
    to = last;
    at = row_end;
  }
  add(from, to, blocks, blocks, 0);
  return pieces;
}

std::vector<OwnPiece> scales_of(const std::vector<OwnPiece>& own, const FlatLayout& whole, int tp) {
  std::vector<OwnPiece> all;
  for (const OwnPiece& one : own) {
    const std::vector<OwnPiece> scales = scales_of(one, whole, tp);
    all.insert(all.end(), scales.begin(), scales.end());
  }
  return all;
}

std::int64_t place_of(const OwnPiece& own, const ExposedBuffer& buffer) {
  std::int64_t before = 0;
  for (const FlatRange& range : buffer.ranges) {
    // The rank has no blocks between the rows of its parts.
    const bool apart = is_state_scale(buffer.id) && own.piece.row_numel < own.piece.row_stride;
    const std::int64_t end = apart ? own.local_begin + 1 : own.local_begin + own.piece.numel;
    if (range.begin <= own.local_begin && end <= range.end)
      return before + own.local_begin - range.begin;
    before += range.numel();
  }
  fail(ErrorCode::internal, "a rank does not have elements that it owns",
       "they would be missing in the checkpoint", "report it with the command line");
}

std::vector<float> widened(const OwnPiece& own, const ExposedBuffer& buffer) {
  std::vector<float> values(own.piece.numel);
  const std::int64_t begin = place_of(own, buffer);
  visit_format(buffer.view.dtype, [&](auto format) {
    using T = typename decltype(format)::type;
    if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, fp16> || std::is_same_v<T, e4m3>) {
      const T* const codes = static_cast<const T*>(buffer.view.data) + begin;
      std::transform(codes, codes + own.piece.numel, values.begin(),
                     [](T code) { return to_float(code); });
    } else {
      fail(ErrorCode::internal,
           "state of " + std::string(decltype(format)::name) + " cannot be decoded to fp32",
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
