#include "cuda/host/update/matrix_product.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/host/base/parallel_units.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda::host {
namespace {

constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

void require_matrix(const char* op, const char* name, std::int64_t rows, std::int64_t columns,
                    std::size_t numel) {
  ZP_CHECK(has_numel(rows, columns, numel), ErrorCode::invalid_argument,
           std::string(op) + ": " + name + " has " + std::to_string(numel) + " elements and " +
               std::to_string(rows) + " rows of " + std::to_string(columns),
           "rows follow each other without gaps", "pass a view of the whole matrix");
}

/// Memory that only grows and is not initialised.
float* at_least(GuardedBuffer& memory, std::int64_t numel) {
  if (memory.numel() < numel) memory = {numel, DType::fp32, BufferFill::untouched};
  return static_cast<float*>(memory.data());
}

}  // namespace

bool MatrixMultiplier::pack(const MatrixFactor& left, const MatrixFactor& right,
                            ProductBlock& block) {
  const std::int64_t down = round_up(left.rows, kernels_.tile_rows) / kernels_.tile_rows;
  const std::int64_t across = round_up(right.rows, kernels_.tile_columns) / kernels_.tile_columns;
  block.words = 0;
  for (int b = 0; b < block.inner.count; ++b)
    block.words += block_words(block.inner, b, block.form);
  const std::int64_t left_numel = down * kernels_.tile_rows * block.words;
  // One block of memory: the usual malloc gives two of them back to the system, page by page, after every product.
  float* const rows =
      given_panels_ != nullptr
          ? given_panels_
          : at_least(panels_, left_numel + across * kernels_.tile_columns * block.words);
  float* const columns = rows + left_numel;
  block.left = rows;
  block.right = columns;
  std::atomic<bool> exact = true;
  const auto panel = [&](const MatrixFactor& factor, std::int64_t lanes, std::int64_t at,
                         float* memory) {
    if (!kernels_.pack(factor, at * lanes, lanes, block.inner, block.form,
                       memory + at * lanes * block.words))
      exact.store(false, std::memory_order_relaxed);
  };
  parallel_units(exec_, down + across, kernels_.tile_columns * block.words,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t p = begin; p < end; ++p) {
                     if (p < down) panel(left, kernels_.tile_rows, p, rows);
                     if (p >= down) panel(right, kernels_.tile_columns, p - down, columns);
                   }
                 });
  return exact;
}

void MatrixMultiplier::multiply(const MatrixFactor& left, const MatrixFactor& right,
                                const InnerBlocks& inner, MatrixFactors factors, bool symmetric,
                                const ProductEnd& end, float* product) {
  if (left.rows == 0 || right.rows == 0) return;
  ProductBlock whole{
      .inner = inner, .symmetric = symmetric, .product = product, .columns = right.rows};
  const bool narrow = factors == MatrixFactors::bf16;
  if (narrow && kernels_.has_pairs != nullptr) whole.form = PanelForm::pairs;
  if (whole.form != PanelForm::pairs || !pack(left, right, whole)) {
    whole.form = narrow ? PanelForm::rounded : PanelForm::plain;
    pack(left, right, whole);
  }
  // Blocks of tiles whose panels and sums stay in the second cache.
  const std::int64_t height = round_up(96, kernels_.tile_rows);
  const std::int64_t width = round_up(96, kernels_.tile_columns);
  std::vector<std::pair<std::int64_t, std::int64_t>> corners;
  for (std::int64_t i = 0; i < left.rows; i += height) {
    for (std::int64_t j = 0; j < right.rows; j += width) {
      if (!symmetric || j < i + height) corners.emplace_back(i, j);
    }
  }
  std::atomic<std::size_t> next = 0;  // a thread takes the following one: their times differ
  parallel_sum(
      exec_, static_cast<std::int64_t>(corners.size()) * block_numel, partials_,
      [&](std::int64_t, std::int64_t, GuardedBuffer& partials) {
        ProductBlock block = whole;
        block.partials = at_least(partials, product_slots * height * width);
        for (std::size_t at = next++; at < corners.size(); at = next++) {
          std::tie(block.first_row, block.first_column) = corners[at];
          block.end_row = std::min(block.first_row + height, left.rows);
          block.end_column = std::min(block.first_column + width, right.rows);
          kernels_.product_block(block, end);
        }
      },
      [](const GuardedBuffer&, GuardedBuffer&) {});
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
  MatrixMultiplier(exec).multiply({left.data(), inner, 1, rows}, {right.data(), inner, 1, columns},
                                  {inner}, factors, same, {}, product.data());
}

}  // namespace zeroproof::cuda::host
