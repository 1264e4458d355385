#pragma once
// Byte matrices from rows to columns on a device: the column-wise copy of parameters (R24). Needs
// no CUDA.

#include <cstdint>

namespace zeroproof::cuda::device {

/// rows by columns; the source is stored by rows, the target by columns; the two do not overlap.
struct ByteMatrix {
  const std::uint8_t* from = nullptr;
  std::uint8_t* to = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// Enqueues all of them on the current stream. Allocates nothing and may be captured.
/// matrices: [count] in device memory; count > 0.
void enqueue_transpose_bytes(const ByteMatrix* matrices, std::int64_t count);

}  // namespace zeroproof::cuda::device
