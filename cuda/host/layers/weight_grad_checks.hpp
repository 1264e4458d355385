#pragma once

#include "common/contracts/weight_grad.hpp"
#include "cuda/host/layers/layer_checks.hpp"

namespace zeroproof::cuda::host {

/// Rows of x.
inline std::int64_t check_column_sum(std::size_t x_numel, std::size_t sums_numel) {
  require_at_least_one("column_sum", "columns", static_cast<std::int64_t>(sums_numel));
  return require_rows("column_sum", "x", x_numel, static_cast<std::int64_t>(sums_numel));
}

inline void check_weight_grad(const char* op, std::int64_t tokens, std::int64_t outputs, std::int64_t inputs,
                              std::size_t dy_numel, std::size_t x_numel, std::size_t weight_numel) {
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
