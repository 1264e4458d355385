#pragma once

#include <cmath>

#include "common/contracts/norm_layers.hpp"
#include "cuda/host/layers/layer_checks.hpp"

namespace zeroproof::cuda::host {

/// Rows of x. Throws invalid_argument unless `full` have the shape of x, `widths` n elements and `heights` one for each
/// row.
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
           "it keeps the variance away from 0, and is added under a square root", "use a finite eps >= 0");
}

}  // namespace zeroproof::cuda::host
