#include <Eigen/Core>

#include "common/base/error.hpp"
#include "reference/checks.hpp"
#include "reference/formats/fp8.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

std::string shape_text(const BlockGrid& grid) {
  return std::to_string(grid.rows) + " x " + std::to_string(grid.columns) + " in blocks of " +
         std::to_string(grid.block_rows) + " x " + std::to_string(grid.block_columns);
}

/// Checked before anything is computed from the grid.
void check_part(const char* operation, const BlockGrid& grid, std::int64_t first,
                std::int64_t numel, const char* of_blocks, std::int64_t num_of_blocks) {
  ZP_CHECK(grid.is_legal(), ErrorCode::invalid_argument,
           std::string(operation) + ": there is no tensor of " + shape_text(grid),
           "dimensions or blocks are too small",
           "give dimensions of at least 0 and blocks of at least 1 x 1");
  ZP_CHECK(first >= 0 && first <= grid.numel() && numel <= grid.numel() - first,
           ErrorCode::invalid_argument,
           std::string(operation) + ": " + std::to_string(numel) + " elements from " +
               std::to_string(first) + " are not within a tensor of " + shape_text(grid),
           "they would get scales of other blocks", "pass a part within the tensor");
  ZP_CHECK(num_of_blocks == grid.num_blocks(), ErrorCode::invalid_argument,
           std::string(operation) + ": " + of_blocks + " has " + std::to_string(num_of_blocks) +
               " elements and a tensor of " + shape_text(grid) + " has " +
               std::to_string(grid.num_blocks()) + " blocks",
           "every block has one, including blocks without an element in this part",
           "pass one for every block");
}

/// R22: the block of element e of the tensor.
std::size_t block_of(const BlockGrid& grid, std::int64_t e) {
  const std::int64_t row = e / grid.columns;
  const std::int64_t column = e % grid.columns;
  return static_cast<std::size_t>(row / grid.block_rows * grid.blocks_across() +
                                  column / grid.block_columns);
}

/// The value to quantize: the element itself, or its share in the bf16 parameter.
float quantized_value(QuantizedValue value, float element) {
  return value == QuantizedValue::direct ? element : static_cast<float>(Eigen::bfloat16(element));
}

template <class Format>
void quantize(const char* operation, const BlockQuantization& options, std::int64_t first,
              Span<const float> values, Span<const float> scale, Span<Format> target,
              const Fp8Format& format) {
  check_same_numel(operation, "values", values.size(), "target", target.size());
  check_part(operation, options.grid, first, numel(values), "scale", numel(scale));
  for (std::int64_t i = 0; i < numel(values); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const float v = quantized_value(options.value, values[at]);
    const float y = v * scale[block_of(options.grid, first + i)];
    target[at].bits = to_fp8(y, format, options.overflow);
  }
}

template <class Format>
void dequantize(const char* operation, const BlockGrid& grid, std::int64_t first,
                Span<const Format> source, Span<const float> scale_inv, Span<float> target,
                const Fp8Format& format) {
  check_same_numel(operation, "source", source.size(), "target", target.size());
  check_part(operation, grid, first, numel(source), "scale_inv", numel(scale_inv));
  for (std::int64_t i = 0; i < numel(source); ++i) {
    const auto at = static_cast<std::size_t>(i);
    target[at] = from_fp8(source[at].bits, format) * scale_inv[block_of(grid, first + i)];
  }
}

}  // namespace

void block_amax(const Exec&, const BlockGrid& grid, QuantizedValue value, std::int64_t first,
                Span<const float> values, Span<std::uint32_t> amax) {
  check_part("block_amax", grid, first, numel(values), "amax", numel(amax));
  for (std::int64_t i = 0; i < numel(values); ++i) {
    const float v = quantized_value(value, values[i]);
    grad_max_accumulate({}, {&v, 1}, amax[block_of(grid, first + i)]);
  }
}

void block_quantize_e4m3(const Exec&, const BlockQuantization& options, std::int64_t first,
                         Span<const float> values, Span<const float> scale, Span<e4m3> target) {
  quantize("block_quantize_e4m3", options, first, values, scale, target, e4m3_format);
}

void block_quantize_e5m2(const Exec&, const BlockQuantization& options, std::int64_t first,
                         Span<const float> values, Span<const float> scale, Span<e5m2> target) {
  quantize("block_quantize_e5m2", options, first, values, scale, target, e5m2_format);
}

void block_dequantize_e4m3(const Exec&, const BlockGrid& grid, std::int64_t first,
                           Span<const e4m3> source, Span<const float> scale_inv,
                           Span<float> target) {
  dequantize("block_dequantize_e4m3", grid, first, source, scale_inv, target, e4m3_format);
}

void block_dequantize_e5m2(const Exec&, const BlockGrid& grid, std::int64_t first,
                           Span<const e5m2> source, Span<const float> scale_inv,
                           Span<float> target) {
  dequantize("block_dequantize_e5m2", grid, first, source, scale_inv, target, e5m2_format);
}

}  // namespace zeroproof::reference
