#pragma once
// Matrix products in the order of R18.

#include <cstdint>
#include <type_traits>

#include "verification/model/blocked_sum.hpp"
#include "verification/model/instruction_set.hpp"

namespace zeroproof::workload {

/// A non-owning strided view of a matrix: element (i, j) is data[i * row_stride + j *
/// column_stride].
template <class Real>
struct Matrix {
  Real* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;

  Matrix() = default;
  /// Row-major and dense.
  Matrix(Real* first, std::int64_t num_rows, std::int64_t num_columns)
      : data(first), rows(num_rows), columns(num_columns), row_stride(num_columns) {}
  /// A writable view converts to a read-only view.
  template <class Other>
  requires std::is_same_v<Real, const Other> Matrix(const Matrix<Other>& other)
      : data(other.data),
        rows(other.rows),
        columns(other.columns),
        row_stride(other.row_stride),
        column_stride(other.column_stride) {}

  Real& operator()(std::int64_t i, std::int64_t j) const {
    return data[i * row_stride + j * column_stride];
  }
  Real* row(std::int64_t i) const {
    return data + i * row_stride;
  }  ///< contiguous if column_stride is 1

  Matrix transposed() const {
    Matrix result = *this;
    result.rows = columns;
    result.columns = rows;
    result.row_stride = column_stride;
    result.column_stride = row_stride;
    return result;
  }

  /// Rows [first, first + count).
  Matrix row_range(std::int64_t first, std::int64_t count) const {
    Matrix result = *this;
    result.data += first * row_stride;
    result.rows = count;
    return result;
  }

  /// Columns [first, first + count).
  Matrix column_range(std::int64_t first, std::int64_t count) const {
    Matrix result = *this;
    result.data += first * column_stride;
    result.columns = count;
    return result;
  }
};

/// c = a b: element (i, j) is the blocked sum over k of a(i, k) * b(k, j), each product and sum
/// rounded.
///
/// Shapes   a [rows, depth], b [depth, columns], c [rows, columns] with column_stride 1; c overlaps
///          neither factor. Any extent may be 0; with depth 0 every element is +0. A transposed()
///          view as a or b gives the products with a transposed factor.
/// Exact    the same bits for every instruction set; an element depends only on its row of a and
///          its column of b.
/// Errors   Error(invalid_argument) if the extents do not fit or a row of c is not contiguous.
void matmul(InstructionSet set, Matrix<const float> a, Matrix<const float> b, Matrix<float> c);
void matmul(InstructionSet set, Matrix<const double> a, Matrix<const double> b, Matrix<double> c);

/// The partial sums of some blocks: a [rows, range.numel()], b [range.numel(), columns] are the
/// columns and rows [range.begin(), range.end()) of the factors of a product of depth range.total.
/// Every element is the fold of its blocks, +0 if they are empty. Errors as above, and if the depth
/// is not range.numel().
void matmul(InstructionSet set, Matrix<const float> a, Matrix<const float> b, Matrix<float> c,
            const BlockRange& range);
void matmul(InstructionSet set, Matrix<const double> a, Matrix<const double> b, Matrix<double> c,
            const BlockRange& range);

}  // namespace zeroproof::workload
