#pragma once

#include <cmath>
#include <string>

#include "common/base/error.hpp"
#include "common/base/span.hpp"
#include "common/contracts/newton_schulz.hpp"

namespace zeroproof::cuda::device {

/// Throws invalid_argument unless the view is a matrix of these extents.
template <class T>
void require_matrix(const char* name, Span<T> view, std::int64_t rows, std::int64_t columns) {
  const std::int64_t count = numel(view);
  const bool fits =
      rows >= 0 && columns >= 0 &&
      (rows == 0 || columns == 0 ? count == 0 : count % columns == 0 && count / columns == rows);
  ZP_CHECK(fits, ErrorCode::invalid_argument,
           std::string(name) + " has " + std::to_string(count) + " elements and is given as " +
               std::to_string(rows) + " x " + std::to_string(columns),
           "a kernel would touch memory beyond it", "pass rows * columns elements");
}

/// Throws invalid_argument unless R28 has a result for these options.
inline void require_options(const NewtonSchulzOptions& options) {
  ZP_CHECK(options.steps >= 1 && options.steps <= 64, ErrorCode::invalid_argument,
           "Newton-Schulz has " + std::to_string(options.steps) + " steps",
           "R28 has 1 to 64 of them", "pass 5, or as many as there are polynomials");
  ZP_CHECK(std::isfinite(options.eps) && options.eps >= 0x1p-126, ErrorCode::invalid_argument,
           "eps of Newton-Schulz is " + std::to_string(options.eps),
           "the norm of a matrix may be 0", "use a finite number from 2^-126 up, as 1e-7");
}

}  // namespace zeroproof::cuda::device
