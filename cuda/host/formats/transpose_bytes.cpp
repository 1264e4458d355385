#include "cuda/host/formats/transpose_bytes.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cuda/host/base/parallel_units.hpp"

namespace zeroproof::cuda::host {
namespace {

static_assert(std::endian::native == std::endian::little, "byte k of a word is its k-th lowest");

/// Swaps the upper parts of the words of `a` with the lower parts of those of `b`, `width` bits at a time.
void swap_parts(std::uint64_t& a, std::uint64_t& b, int width, std::uint64_t lower) {
  const std::uint64_t moved = ((a >> width) ^ b) & lower;
  b ^= moved;
  a ^= moved << width;
}

/// 8 rows of 8 bytes in registers: blocks of 4, then 2, then 1 byte are swapped.
void transpose_8x8(const std::uint8_t* from, std::int64_t from_stride, std::uint8_t* to,
                   std::int64_t to_stride) {
  std::uint64_t row[8];
  for (int r = 0; r < 8; ++r) std::memcpy(&row[r], from + r * from_stride, sizeof(row[r]));
  for (int r = 0; r < 4; ++r) swap_parts(row[r], row[r + 4], 32, 0x00000000FFFFFFFFU);
  for (const int r : {0, 1, 4, 5}) swap_parts(row[r], row[r + 2], 16, 0x0000FFFF0000FFFFU);
  for (const int r : {0, 2, 4, 6}) swap_parts(row[r], row[r + 1], 8, 0x00FF00FF00FF00FFU);
  for (int r = 0; r < 8; ++r) std::memcpy(to + r * to_stride, &row[r], sizeof(row[r]));
}

}  // namespace

void transpose_bytes(const Exec& exec, const std::uint8_t* from, std::uint8_t* to,
                     std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t tile =
      64;  // its rows are cache lines on both sides, all of them in the first-level cache
  const std::int64_t across = (columns + tile - 1) / tile, down = (rows + tile - 1) / tile;
  if (rows == 1 || columns == 1) {  // the same order
    return parallel_blocks(exec, rows * columns, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
    });
  }
  parallel_units(exec, across * down, tile * tile, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t r0 = unit / across * tile, c0 = unit % across * tile;
      const std::int64_t r1 = std::min(r0 + tile, rows), c1 = std::min(c0 + tile, columns);
      const std::int64_t r8 = r0 + (r1 - r0) / 8 * 8, c8 = c0 + (c1 - c0) / 8 * 8;
      for (std::int64_t r = r0; r < r8; r += 8) {
        for (std::int64_t c = c0; c < c8; c += 8) {
          transpose_8x8(from + r * columns + c, columns, to + c * rows + r, rows);
        }
      }
      for (std::int64_t r = r0; r < r1; ++r) {
        for (std::int64_t c = r < r8 ? c8 : c0; c < c1; ++c)
          to[c * rows + r] = from[r * columns + c];
      }
    }
  });
}

}  // namespace zeroproof::cuda::host
