#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// What the factors of a product are rounded to (R27): bf16, so that every product is exact in fp32 unless it
/// underflows, or nothing.
enum class MatrixFactors : std::uint8_t { bf16, fp32 };

/// The product of a matrix and the transpose of another one: product = left right^T.
///
/// Shapes   left: [rows, inner], right: [columns, inner], product: [rows, columns], row after row; extents >= 0.
///          left and right may be the same memory; product overlaps neither.
/// Order    factors are rounded first (to bf16 by R8, or not); then for element (i, j), in the 8 blocks of R18 of
///          inner terms: s = +0; s = fma(left_(i, q), right_(j, q), s) for q of the block, increasing; the 8 sums
///          folded as in R18.
/// Exact    ordered.
/// Errors   invalid_argument if an extent is negative, or a view has another numel.
/// Contract R8, R18, R27.
using MatrixProductFn = void(const Exec&, MatrixFactors, std::int64_t rows, std::int64_t columns,
                             std::int64_t inner, Span<const float> left, Span<const float> right,
                             Span<float> product);

}  // namespace zeroproof
