#include "cuda/device/step/transpose_bytes.hpp"

#include "cuda/device/kernels/base/host_device.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda::device {

namespace {

/// Rows and columns per block of threads, and the row pitch in bytes of its shared memory.
constexpr int tile = 64, pitch = tile + 4;

constexpr int word_bytes = 4;
constexpr int words_across = tile / word_bytes;
constexpr int rows_at_once = block_threads / words_across;

ZP_DEVICE inline bool in_words(const std::uint8_t* data, std::int64_t pitch_bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % word_bytes == 0 && pitch_bytes % word_bytes == 0;
}

/// Both sides are accessed in rows, four bytes per thread where alignment permits.
ZP_DEVICE void transpose_tile(const ByteMatrix& m, std::int64_t row, std::int64_t column,
                              std::uint8_t* bytes) {
  const int thread = static_cast<int>(threadIdx.x);
  const int at = thread % words_across * word_bytes;
  const int num_rows = static_cast<int>(m.rows - row < tile ? m.rows - row : tile);
  const int num_columns = static_cast<int>(m.columns - column < tile ? m.columns - column : tile);
  const bool reads_words = in_words(m.from, m.columns), writes_words = in_words(m.to, m.rows);
  for (int r = thread / words_across; r < num_rows; r += rows_at_once) {
    const std::uint8_t* const from = m.from + (row + r) * m.columns + column + at;
    std::uint8_t* const to = bytes + r * pitch + at;
    if (reads_words && at < num_columns) {
      *reinterpret_cast<std::uint32_t*>(to) = *reinterpret_cast<const std::uint32_t*>(from);
    } else {
      for (int k = 0; k < word_bytes && at + k < num_columns; ++k) to[k] = from[k];
    }
  }
  __syncthreads();
  for (int c = thread / words_across; c < num_columns; c += rows_at_once) {
    std::uint8_t* const to = m.to + (column + c) * m.rows + row + at;
    const std::uint8_t* const from = bytes + at * pitch + c;
    if (writes_words && at < num_rows) {
      std::uint32_t word = 0;
      ZP_UNROLL
      for (int k = 0; k < word_bytes; ++k)
        word |= static_cast<std::uint32_t>(from[k * pitch]) << (8 * k);
      *reinterpret_cast<std::uint32_t*>(to) = word;
    } else {
      for (int k = 0; k < word_bytes && at + k < num_rows; ++k) to[k] = from[k * pitch];
    }
  }
  __syncthreads();  // before the next tile overwrites the memory
}

/// Numbers the tiles of all matrices consecutively; each block processes every gridDim.x-th tile.
ZP_KERNEL transpose_kernel(const ByteMatrix* matrices, std::int64_t count) {
  ZP_SHARED_ARRAY(std::uint32_t, words, tile * pitch / word_bytes);
  auto* const bytes = reinterpret_cast<std::uint8_t*>(words);
  std::int64_t next = blockIdx.x;
  for (std::int64_t i = 0; i < count; ++i) {
    const ByteMatrix m = matrices[i];
    const std::int64_t across = (m.columns + tile - 1) / tile;
    const std::int64_t tiles = across * ((m.rows + tile - 1) / tile);
    for (; next < tiles; next += gridDim.x) {
      transpose_tile(m, next / across * tile, next % across * tile, bytes);
    }
    next -= tiles;
  }
}

}  // namespace

void enqueue_transpose_bytes(const ByteMatrix* matrices, std::int64_t count) {
  constexpr std::int64_t blocks_per_multiprocessor = 8;
  launch(transpose_kernel, static_cast<int>(blocks_per_multiprocessor) * num_multiprocessors(),
         block_threads, matrices, count);
}

}  // namespace zeroproof::cuda::device
