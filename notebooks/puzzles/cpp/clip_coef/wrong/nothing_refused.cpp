// caught: first at  clip_coef[0] | max_norm 0xbff0000000000000 (-1)

#include <cmath>

#include "common/contracts/clip.hpp"

namespace zeroproof::mine {

float clip_coef(double grad_norm, std::optional<double> max_norm) {
  if (!max_norm.has_value() || *max_norm == 0) return 1;
  const double q = *max_norm / (grad_norm + 1e-6);
  return std::isnan(q) ? NAN : static_cast<float>(q < 1 ? q : 1);
}

}  // namespace zeroproof::mine
