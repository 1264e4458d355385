#include "verification/model/matmul.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/error.hpp"

namespace zeroproof::workload {
namespace {

// A panel is a copy of a few columns of b, [depth, panel_columns]: the inner loop then reads
// contiguous memory for any strides of b, and needs no special case for fewer remaining columns.
template <class Real>
constexpr int panel_columns = 64 / sizeof(Real);

// Four rows: enough independent sums to hide the latency of an addition, few enough to fit into
// registers.
constexpr int tile_rows = 4;

template <class Real, int bytes>
struct VectorOf {
  typedef Real type __attribute__((vector_size(bytes)));
};

// out [rows, panel_columns] = a [rows, depth] * panel. Lanes are columns, so each element keeps its
// order.
template <int rows, int vector_bytes, class Real>
__attribute__((always_inline)) inline void multiply_tile(const Matrix<const Real>& a,
                                                         const BlockRange& range,
                                                         std::int64_t first_row, const Real* panel,
                                                         Real* out) {
  using Vector = typename VectorOf<Real, vector_bytes>::type;
  constexpr int lanes = vector_bytes / sizeof(Real);
  constexpr int vectors = panel_columns<Real> / lanes;
  Vector sums[sum_blocks][rows][vectors];
  for (int b = 0; b < range.count; ++b) {
    Vector sum[rows][vectors];
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < vectors; ++v) sum[r][v] = Vector{};
    }
    const std::int64_t end = range.local_begin(b + 1);
    for (std::int64_t k = range.local_begin(b); k < end; ++k) {
      Vector x[vectors];
      for (int v = 0; v < vectors; ++v) {
        std::memcpy(&x[v], panel + k * panel_columns<Real> + v * lanes, sizeof(Vector));
      }
      for (int r = 0; r < rows; ++r) {
        const Real factor = a(first_row + r, k);
        for (int v = 0; v < vectors; ++v) sum[r][v] += factor * x[v];
      }
    }
    for (int r = 0; r < rows; ++r) {
      for (int v = 0; v < vectors; ++v) sums[b][r][v] = sum[r][v];
    }
  }
  // fused_fold() written out for vectors: their ABI in calls differs between instruction sets.
  for (int step = 1; step < range.count; step *= 2) {
    for (int b = 0; b < range.count; b += 2 * step) {
      for (int r = 0; r < rows; ++r) {
        for (int v = 0; v < vectors; ++v) sums[b][r][v] += sums[b + step][r][v];
      }
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      std::memcpy(out + r * panel_columns<Real> + v * lanes, &sums[0][r][v], sizeof(Vector));
    }
  }
}

template <int rows, int vector_bytes, class Real>
__attribute__((always_inline)) inline void multiply_rows(const Matrix<const Real>& a,
                                                         const BlockRange& range,
                                                         std::int64_t first_row, const Real* panel,
                                                         const Matrix<Real>& c) {
  Real tile[rows * panel_columns<Real>];
  multiply_tile<rows, vector_bytes>(a, range, first_row, panel, tile);
  for (int r = 0; r < rows; ++r) {
    std::copy_n(tile + r * panel_columns<Real>, c.columns, c.row(first_row + r));
  }
}

template <class Real>
void fill_panel(const Matrix<const Real>& b, Real* panel) {
  for (std::int64_t k = 0; k < b.rows; ++k) {
    for (std::int64_t j = 0; j < b.columns; ++j) panel[k * panel_columns<Real> + j] = b(k, j);
  }
}

template <class Real>
void multiply(InstructionSet set, Matrix<const Real> a, Matrix<const Real> b, Matrix<Real> c,
              const BlockRange& range) {
  ZP_CHECK(a.rows == c.rows && a.columns == b.rows && b.columns == c.columns,
           ErrorCode::invalid_argument,
           "the extents of a product do not fit: " + std::to_string(a.rows) + "x" +
               std::to_string(a.columns) + " times " + std::to_string(b.rows) + "x" +
               std::to_string(b.columns) + " into " + std::to_string(c.rows) + "x" +
               std::to_string(c.columns),
           "elements outside a matrix would be read", "use transposed() for a transposed factor");
  ZP_CHECK(a.columns == range.numel(), ErrorCode::invalid_argument,
           "factors have depth " + std::to_string(a.columns) + ", the blocks have " +
               std::to_string(range.numel()) + " terms",
           "elements would be added to the wrong block",
           "pass only the columns and rows of the range");
  ZP_CHECK(c.column_stride == 1, ErrorCode::invalid_argument,
           "the result of a product has column stride " + std::to_string(c.column_stride),
           "rows are written as contiguous memory", "compute the transposed product instead");
  std::vector<Real> panel(b.rows * panel_columns<Real>);
  for (std::int64_t first = 0; first < c.columns; first += panel_columns<Real>) {
    const std::int64_t count = std::min<std::int64_t>(panel_columns<Real>, c.columns - first);
    // Lanes past the last column have stale values of the previous panel: their results are
    // discarded.
    fill_panel(b.column_range(first, count), panel.data());
    const Matrix<Real> out = c.column_range(first, count);
    run_on(set, [&](auto vector_bytes) ZP_INLINE_BODY {
      constexpr int bytes = decltype(vector_bytes)::value;
      std::int64_t i = 0;
      for (; i + tile_rows <= a.rows; i += tile_rows)
        multiply_rows<tile_rows, bytes>(a, range, i, panel.data(), out);
      for (; i < a.rows; ++i) multiply_rows<1, bytes>(a, range, i, panel.data(), out);
    });
  }
}

}  // namespace

void matmul(InstructionSet set, Matrix<const float> a, Matrix<const float> b, Matrix<float> c) {
  multiply(set, a, b, c, {a.columns});
}

void matmul(InstructionSet set, Matrix<const double> a, Matrix<const double> b, Matrix<double> c) {
  multiply(set, a, b, c, {a.columns});
}

void matmul(InstructionSet set, Matrix<const float> a, Matrix<const float> b, Matrix<float> c,
            const BlockRange& range) {
  multiply(set, a, b, c, range);
}

void matmul(InstructionSet set, Matrix<const double> a, Matrix<const double> b, Matrix<double> c,
            const BlockRange& range) {
  multiply(set, a, b, c, range);
}

}  // namespace zeroproof::workload
