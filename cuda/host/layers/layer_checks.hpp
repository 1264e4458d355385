#pragma once
// Argument checks of layer operations, shared by host and device.

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "common/base/error.hpp"
#include "common/base/span.hpp"
#include "common/contracts/bias_dropout.hpp"
#include "common/contracts/norm_layers.hpp"
#include "common/contracts/softmax.hpp"
#include "common/contracts/weight_grad.hpp"

namespace zeroproof::cuda::host {

/// A buffer with its name in error messages.
struct NamedView {
  const char* name;
  std::size_t numel;
};

/// Throws invalid_argument unless value >= 1.
inline void require_at_least_one(const char* op, const char* what, std::int64_t value) {
  ZP_CHECK(value >= 1, ErrorCode::invalid_argument,
           std::string(op) + ": " + what + " is " + std::to_string(value),
           "an empty shape has no rows", "pass 1 or more");
}

/// Returns numel / length. Throws invalid_argument unless the division is exact. length >= 1.
inline std::int64_t require_rows(const char* op, const char* what, std::size_t numel,
                                 std::int64_t length) {
  const auto count = static_cast<std::int64_t>(numel);
  ZP_CHECK(count % length == 0, ErrorCode::invalid_argument,
           std::string(op) + ": " + what + " has " + std::to_string(count) +
               " elements, which is not a multiple of " + std::to_string(length),
           "the last row would be incomplete", "pass whole rows");
  return count / length;
}

/// Throws invalid_argument unless a buffer has the expected number of elements.
inline void require_numel(const char* op, const char* what, std::size_t numel,
                          std::int64_t expected) {
  ZP_CHECK(static_cast<std::int64_t>(numel) == expected, ErrorCode::invalid_argument,
           std::string(op) + ": " + what + " has " + std::to_string(numel) +
               " elements and should have " + std::to_string(expected),
           "the kernel would read or write past its end",
           "pass a view of the shape required by the contract");
}

/// The same for several buffers.
inline void require_numels(const char* op, std::initializer_list<NamedView> views,
                           std::int64_t expected) {
  for (const NamedView& view : views) require_numel(op, view.name, view.numel, expected);
}

/// The same for rows * length elements, even if that product overflows. length >= 0.
inline void require_matrix(const char* op, const char* what, std::size_t numel, std::int64_t rows,
                           std::int64_t length) {
  const auto count = static_cast<std::int64_t>(numel);
  const bool fits =
      length == 0 || rows == 0 ? count == 0 : count % length == 0 && count / length == rows;
  ZP_CHECK(fits, ErrorCode::invalid_argument,
           std::string(op) + ": " + what + " has " + std::to_string(count) +
               " elements and should be " + std::to_string(rows) + " rows of " +
               std::to_string(length),
           "the kernel would read or write past its end",
           "pass a view of the shape required by the contract");
}

/// Derived from the probability of dropping: words below `threshold` drop, other elements are
/// multiplied by `scale`.
struct DropoutRule {
  std::uint32_t threshold;
  float scale;
};

/// Throws invalid_argument unless 0 <= probability < 1.
inline DropoutRule dropout_rule(const char* op, double probability) {
  ZP_CHECK(probability >= 0 && probability < 1, ErrorCode::invalid_argument,
           std::string(op) + ": probability is " + std::to_string(probability),
           "kept elements are divided by 1 - probability", "use a probability in [0, 1)");
  // The product is exact and is truncated; for probabilities below 1 it is at most 2^32 - 2^-21.
  const auto threshold = static_cast<std::uint32_t>(probability * 0x1p32);
  const double kept = 1.0 - probability;
  return {threshold, static_cast<float>(1.0 / kept)};
}

inline void check_bias_dropout(std::int64_t columns, std::size_t x_numel, std::size_t bias_numel,
                               std::size_t residual_numel, std::size_t y_numel) {
  constexpr const char* op = "bias_dropout";
  require_at_least_one(op, "columns", columns);
  require_rows(op, "x", x_numel, columns);
  if (bias_numel != 0) require_numel(op, "bias", bias_numel, columns);
  require_numel(op, "residual", residual_numel, static_cast<std::int64_t>(x_numel));
  require_numel(op, "y", y_numel, static_cast<std::int64_t>(x_numel));
}

/// Rows of x. Throws invalid_argument unless `full` have the shape of x, `widths` n elements and
/// `heights` one for each row.
inline std::int64_t check_norm_layer(const char* op, std::int64_t n, std::size_t x_numel,
                                     std::initializer_list<NamedView> full,
                                     std::initializer_list<NamedView> widths,
                                     std::initializer_list<NamedView> heights) {
  require_at_least_one(op, "n", n);
  const std::int64_t rows = require_rows(op, "x", x_numel, n);
  require_numels(op, full, static_cast<std::int64_t>(x_numel));
  require_numels(op, widths, n);
  require_numels(op, heights, rows);
  return rows;
}

inline void check_norm_eps(const char* op, float eps) {
  ZP_CHECK(std::isfinite(eps) && eps >= 0.0F, ErrorCode::invalid_argument,
           std::string(op) + ": eps is " + std::to_string(eps),
           "it is added to the variance under a square root", "use a finite eps >= 0");
}

/// Rows of a matrix of that many elements, and of all `views`. Throws invalid_argument unless they
/// are rows of n elements.
inline std::int64_t check_masked(const char* op, std::int64_t n, std::size_t matrix_numel,
                                 std::initializer_list<NamedView> views) {
  require_at_least_one(op, "n", n);
  const std::int64_t rows = require_rows(op, "the matrix", matrix_numel, n);
  require_numels(op, views, static_cast<std::int64_t>(matrix_numel));
  return rows;
}

/// The same for square matrices.
inline std::int64_t check_causal(const char* op, std::int64_t n, std::size_t matrix_numel,
                                 std::initializer_list<NamedView> views) {
  const std::int64_t rows = check_masked(op, n, matrix_numel, views);
  require_rows(op, "a column of all matrices", static_cast<std::size_t>(rows), n);
  return rows;
}

/// The same for [batches, heads, positions, n]; sink_share is [rows].
inline std::int64_t check_sink(const char* op, std::int64_t heads, std::int64_t positions,
                               std::int64_t n, std::size_t matrix_numel,
                               std::size_t sink_share_numel,
                               std::initializer_list<NamedView> views) {
  require_at_least_one(op, "positions", positions);
  require_at_least_one(op, "heads", heads);
  const std::int64_t rows = check_masked(op, n, matrix_numel, views);
  const std::int64_t groups =
      require_rows(op, "a column of the matrix", static_cast<std::size_t>(rows), positions);
  require_rows(op, "a column of the matrix, in groups of positions,",
               static_cast<std::size_t>(groups), heads);
  require_numel(op, "sink_share", sink_share_numel, rows);
  return rows;
}

/// Rows of x.
inline std::int64_t check_column_sum(std::size_t x_numel, std::size_t sums_numel) {
  require_at_least_one("column_sum", "columns", static_cast<std::int64_t>(sums_numel));
  return require_rows("column_sum", "x", x_numel, static_cast<std::int64_t>(sums_numel));
}

inline void check_weight_grad(const char* op, std::int64_t tokens, std::int64_t outputs,
                              std::int64_t inputs, std::size_t dy_numel, std::size_t x_numel,
                              std::size_t weight_numel) {
  require_at_least_one(op, "outputs", outputs);
  require_at_least_one(op, "inputs", inputs);
  ZP_CHECK(tokens >= 0, ErrorCode::invalid_argument,
           std::string(op) + ": tokens is " + std::to_string(tokens), "it is a number of rows",
           "pass 0 or more");
  require_matrix(op, "dy", dy_numel, tokens, outputs);
  require_matrix(op, "x", x_numel, tokens, inputs);
  require_matrix(op, "weight_grad", weight_numel, outputs, inputs);
}

}  // namespace zeroproof::cuda::host
