#include "verification/tools/judge_run/run_element.hpp"

#include <bit>

#include "common/base/float_formats.hpp"
#include "verification/compare/bounds/step_bounds.hpp"
#include "verification/compare/compare.hpp"

namespace zeroproof::verification {

float round_to(DType dtype, float value) {
  if (dtype == DType::bf16) return to_float(to_bf16(value));
  return dtype == DType::fp16 ? to_float(to_fp16(value)) : value;
}

std::string shown_value(DType dtype, float value) {
  if (dtype == DType::bf16) return show_bits(dtype, to_bf16(value).bits);
  if (dtype == DType::fp16) return show_bits(dtype, to_fp16(value).bits);
  return show_bits(DType::fp32, std::bit_cast<std::uint32_t>(value));
}

ElementBound stored_in(DType dtype, ElementBound bound) {
  if (dtype == DType::fp32) return bound;
  if (!bound.judged || !std::isfinite(bound.exact)) return bound;
  const bounds::Real most = std::fabs(bound.exact) + bound.allowed;
  bound.allowed += unit_of(dtype) * most + half_tiny_of(dtype);
  if (most < largest_of(dtype)) return bound;
  bound.judged = false;
  bound.classes = ResultClasses::number |
                  (bound.exact < 0 ? ResultClasses::minus_infinity : ResultClasses::infinity);
  return bound;
}

ElementBound sum_or_mean_bound(Span<const float> terms, std::int64_t parts, bounds::Real unit) {
  using bounds::Real;
  Real sum = 0, magnitudes = 0;
  for (const float x : terms) {
    sum += static_cast<Real>(x);
    magnitudes += std::fabs(static_cast<Real>(x));
  }
  // As many terms as this and none overflows: otherwise the class alone is judged.
  if (!(magnitudes < bounds::largest)) {
    ElementBound bound = sum_bound(terms);
    bound.judged = false;
    return bound;
  }
  const auto n = static_cast<int>(terms.size());
  const auto divisor = static_cast<Real>(parts);
  const int count = std::max(0, n - 1) + (parts > 1 ? 2 : 0);
  if (static_cast<Real>(count) * unit >= 0.5L)
    return {0, 0, false, ResultClasses::number | ResultClasses::zero | ResultClasses::minus_zero};
  const Real underflow = parts > 1 ? static_cast<Real>(n + 1) * bounds::eta : 0;
  return {sum / divisor,
          (roundings(count, unit) * magnitudes / divisor + underflow) * bounds::slack, true};
}

}  // namespace zeroproof::verification
