// The clip coefficient in C++, for every case of op/clip_coef (lesson 5; rule R12).

#include "common/base/error.hpp"
#include "common/contracts/clip.hpp"

namespace zeroproof::mine {

/// In fp64 q = max_norm / (grad_norm + 1e-6); the result is q, or 1 if q is not below 1, rounded to
/// fp32 once. NaN if grad_norm is NaN. Without a max_norm, or with 0, the result is 1 for any norm.
///
/// Errors   ErrorCode::invalid_argument (use ZP_CHECK of common/base/error.hpp) if max_norm is
///          negative, NaN or infinite.
float clip_coef(double grad_norm, std::optional<double> max_norm) {
  // TODO: the check of max_norm, the cases with result 1, and the quotient
  return 0;
}

}  // namespace zeroproof::mine
