#pragma once
// Transposition of byte matrices from row-major to column-major order.

#include <cstdint>

#include "common/base/exec.hpp"

namespace zeroproof::cuda::host {

/// to[c * rows + r] = from[r * columns + c]. rows, columns >= 0; the two do not overlap.
void transpose_bytes(const Exec& exec, const std::uint8_t* from, std::uint8_t* to,
                     std::int64_t rows, std::int64_t columns);

}  // namespace zeroproof::cuda::host
