#include "verification/tools/train/checkpoints/stored_chunk.hpp"

#include "common/checkpoint/own_pieces.hpp"
#include "common/io/checkpoint/checkpoint_manifest.hpp"

namespace zeroproof::verification {
namespace {

std::int64_t num_blocks(std::int64_t numel) {
  return (numel + state_block_numel - 1) / state_block_numel;
}

}  // namespace

std::vector<float> widened_codes(StateFormat format, Span<const std::byte> bytes) {
  const DType dtype = dtype_of(format);
  const auto numel = static_cast<std::int64_t>(bytes.size()) / num_bytes(dtype);
  OwnPiece all;
  all.piece.numel = numel;
  const TensorView codes{const_cast<std::byte*>(bytes.data()), dtype, numel};
  return widened(all, ExposedBuffer{BufferId::exp_avg, codes, {{0, numel}}});
}

StoredChunk::StoredChunk(StateFormat format, std::int64_t numel)
    : all_{Piece{0, 0, 0, 0, numel}}, buffer_(format, numel, {{0, num_blocks(numel)}}) {}

void StoredChunk::store(Span<const float> values) {
  reference::BlockAmax amax;
  buffer_.collect(all_, values, amax);
  buffer_.store(all_, values, amax);
}

void StoredChunk::take(Span<const float> codes, Span<const float> scale_inv) {
  buffer_.take(all_, codes, scale_inv);
}

Span<const std::byte> StoredChunk::code_bytes() const {
  const TensorView codes = buffer_.codes();
  return {static_cast<const std::byte*>(codes.data), static_cast<std::size_t>(codes.num_bytes())};
}

Span<const float> StoredChunk::scale_inv() const {
  const TensorView scales = buffer_.scales(StateSlot::exp_avg).view;
  return {static_cast<const float*>(scales.data), static_cast<std::size_t>(scales.numel)};
}

std::vector<float> StoredChunk::values() const {
  std::vector<float> values(all_.front().numel);
  buffer_.read(all_, values);
  return values;
}

}  // namespace zeroproof::verification
