// caught: first at  clip_coef[8] | want 0x7fc00000 (nan) | they hold 1

#include <cmath>

#include "common/base/error.hpp"
#include "common/contracts/clip.hpp"

namespace zeroproof::mine {

float clip_coef(double grad_norm, std::optional<double> max_norm) {
  if (!max_norm.has_value()) return 1;
  ZP_CHECK(std::isfinite(*max_norm) && *max_norm >= 0, ErrorCode::invalid_argument,
           "max_norm is no limit", "nothing can be scaled to it",
           "pass a finite number that is not negative");
  if (*max_norm == 0) return 1;
  const double q = *max_norm / (grad_norm + 1e-6);
  return static_cast<float>(q < 1 ? q : 1);
}

}  // namespace zeroproof::mine
