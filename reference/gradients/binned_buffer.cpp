#include "reference/gradients/binned_buffer.hpp"

#include "reference/blocks.hpp"
#include "reference/buffers.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {

BinnedBuffer::BinnedBuffer(std::int64_t numel)
    : hi(static_cast<std::size_t>(numel)),
      lo(static_cast<std::size_t>(numel)),
      top(static_cast<std::size_t>(numel)) {}

void BinnedBuffer::deposit(const std::vector<float>& grad, std::int64_t begin,
                           const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    const std::int64_t first = begin + piece.local_begin;
    binned_deposit({}, at(Span<const float>(grad), piece),
                   {part(Span<std::int32_t>(hi), first, piece.numel),
                    part(Span<std::int32_t>(lo), first, piece.numel),
                    part(Span<std::uint8_t>(top), first, piece.numel)});
  }
}

std::vector<float> BinnedBuffer::finish(const std::vector<Piece>& pieces) {
  std::vector<float> sums = nan_buffer(static_cast<std::int64_t>(hi.size()));
  for (const Piece& piece : pieces) {
    binned_finish({},
                  {part(Span<std::int32_t>(hi), piece.local_begin, piece.numel),
                   part(Span<std::int32_t>(lo), piece.local_begin, piece.numel),
                   part(Span<std::uint8_t>(top), piece.local_begin, piece.numel)},
                  at(sums, piece));
  }
  return sums;
}

}  // namespace zeroproof::reference
