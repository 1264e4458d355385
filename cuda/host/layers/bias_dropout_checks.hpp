#pragma once

#include "common/contracts/bias_dropout.hpp"
#include "cuda/host/layers/layer_checks.hpp"

namespace zeroproof::cuda::host {

/// What a probability of dropping makes: words below `threshold` drop, the rest is multiplied by `scale`.
struct DropoutRule {
  std::uint32_t threshold;
  float scale;
};

/// Throws invalid_argument unless 0 <= probability < 1.
inline DropoutRule dropout_rule(const char* op, double probability) {
  ZP_CHECK(probability >= 0 && probability < 1, ErrorCode::invalid_argument,
           std::string(op) + ": probability is " + std::to_string(probability),
           "the elements that are kept are divided by 1 - probability", "use a probability in [0, 1)");
  // The product is exact, and the conversion drops its fraction; below 1 it is at most 2^32 - 2^-21.
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

}  // namespace zeroproof::cuda::host
