#pragma once

#include "common/contracts/softmax.hpp"
#include "cuda/host/layers/layer_checks.hpp"

namespace zeroproof::cuda::host {

/// Rows of a matrix of so many elements, and of all `views`. Throws invalid_argument unless they are rows of n
/// elements.
inline std::int64_t check_masked(const char* op, std::int64_t n, std::size_t matrix_numel,
                                 std::initializer_list<NamedView> views) {
  require_at_least_one(op, "n", n);
  const std::int64_t rows = require_rows(op, "the matrix", matrix_numel, n);
  require_numels(op, views, static_cast<std::int64_t>(matrix_numel));
  return rows;
}

/// The same; they are square matrices.
inline std::int64_t check_causal(const char* op, std::int64_t n, std::size_t matrix_numel,
                                 std::initializer_list<NamedView> views) {
  const std::int64_t rows = check_masked(op, n, matrix_numel, views);
  require_rows(op, "a column of all matrices", static_cast<std::size_t>(rows), n);
  return rows;
}

/// The same; they are [batches, heads, positions, n], and sink_share is [rows].
inline std::int64_t check_sink(const char* op, std::int64_t heads, std::int64_t positions, std::int64_t n,
                               std::size_t matrix_numel, std::size_t sink_share_numel,
                               std::initializer_list<NamedView> views) {
  require_at_least_one(op, "positions", positions);
  require_at_least_one(op, "heads", heads);
  const std::int64_t rows = check_masked(op, n, matrix_numel, views);
  const std::int64_t groups =
      require_rows(op, "a column of the matrix", static_cast<std::size_t>(rows), positions);
  require_rows(op, "a column of the matrix, in groups of positions,", static_cast<std::size_t>(groups),
               heads);
  require_numel(op, "sink_share", sink_share_numel, rows);
  return rows;
}

}  // namespace zeroproof::cuda::host
