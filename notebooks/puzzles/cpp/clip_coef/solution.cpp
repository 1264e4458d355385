// clip_coef: the check, the limits without effect, and one quotient in fp64.

#include <cmath>

#include "common/base/error.hpp"
#include "common/contracts/clip.hpp"

namespace zeroproof::mine {

float clip_coef(double grad_norm, std::optional<double> max_norm) {
  if (!max_norm.has_value()) return 1;
  ZP_CHECK(std::isfinite(*max_norm) && *max_norm >= 0, ErrorCode::invalid_argument,
           "invalid max_norm", "it must be finite and nonnegative", "correct its value");
  if (*max_norm == 0) return 1;
  const double q = *max_norm / (grad_norm + 1e-6);
  return std::isnan(q) ? NAN : static_cast<float>(q < 1 ? q : 1);
}

}  // namespace zeroproof::mine
