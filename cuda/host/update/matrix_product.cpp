#include "cuda/host/update/matrix_product.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "cuda/host/base/parallel_units.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda::host {
namespace {

constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

/// Panels of `lanes` rows, [panel][inner][lanes].
std::vector<float> packed(const Exec& exec, const MatrixFactor& factor, std::int64_t inner,
                          std::int64_t lanes, bool rounds) {
  const std::int64_t panels = round_up(factor.rows, lanes) / lanes;
  std::vector<float> memory(static_cast<std::size_t>(panels * lanes * inner));
  const MatrixKernels& kernels = matrix_kernels(exec.isa);
  parallel_units(exec, panels, lanes * inner, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      kernels.pack(factor, p * lanes, lanes, inner, rounds, memory.data() + p * lanes * inner);
    }
  });
  return memory;
}

void require_matrix(const char* op, const char* name, std::int64_t rows, std::int64_t columns,
                    std::size_t numel) {
  ZP_CHECK(static_cast<std::size_t>(rows * columns) == numel, ErrorCode::invalid_argument,
           std::string(op) + ": " + name + " has " + std::to_string(numel) + " elements and " +
               std::to_string(rows) + " rows of " + std::to_string(columns),
           "rows follow each other without gaps", "pass a view of the whole matrix");
}

}  // namespace

void multiply(const Exec& exec, const MatrixFactor& left, const MatrixFactor& right,
              std::int64_t inner, bool rounds, bool symmetric, const ProductEnd& end,
              float* product) {
  const MatrixKernels& kernels = matrix_kernels(exec.isa);
  const std::int64_t rows = left.rows, columns = right.rows;
  const std::vector<float> left_panels = packed(exec, left, inner, kernels.tile_rows, rounds);
  const std::vector<float> right_panels = packed(exec, right, inner, kernels.tile_columns, rounds);
  // Blocks of tiles whose sums stay in the second cache.
  const std::int64_t height = round_up(96, kernels.tile_rows);
  const std::int64_t width = round_up(96, kernels.tile_columns);
  const std::int64_t across = (columns + width - 1) / width;
  const std::int64_t blocks = (rows + height - 1) / height * across;
  parallel_units(exec, blocks, height * width * inner, [&](std::int64_t begin, std::int64_t last) {
    std::vector<float> partials(static_cast<std::size_t>(product_slots * height * width));
    for (std::int64_t b = begin; b < last; ++b) {
      const std::int64_t i = b / across * height, j = b % across * width;
      kernels.product_block(
          {left_panels.data(), right_panels.data(), inner, i, std::min(i + height, rows), j,
           std::min(j + width, columns), symmetric, product, columns, partials.data()},
          end);
    }
  });
}

void matrix_product(const Exec& exec, MatrixFactors factors, std::int64_t rows,
                    std::int64_t columns, std::int64_t inner, Span<const float> left,
                    Span<const float> right, Span<float> product) {
  for (const auto& [name, extent] :
       {std::pair("rows", rows), std::pair("columns", columns), std::pair("inner", inner)}) {
    ZP_CHECK(extent >= 0, ErrorCode::invalid_argument,
             "matrix_product: " + std::string(name) + " is " + std::to_string(extent),
             "no matrix has such an extent", "use 0 or more");
  }
  require_matrix("matrix_product", "left", rows, inner, left.size());
  require_matrix("matrix_product", "right", columns, inner, right.size());
  require_matrix("matrix_product", "product", rows, columns, product.size());
  const bool same = left.data() == right.data() && rows == columns;
  multiply(exec, {left.data(), inner, 1, rows}, {right.data(), inner, 1, columns}, inner,
           factors == MatrixFactors::bf16, same, {}, product.data());
}

}  // namespace zeroproof::cuda::host
