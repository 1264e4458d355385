#pragma once
// One element of a recorded step against its bound, in formats of up to 24 bits.

#include <cmath>
#include <vector>

#include "common/base/dtype.hpp"
#include "common/base/span.hpp"
#include "verification/compare/bounds/element_bound.hpp"
#include "verification/compare/bounds/model.hpp"

namespace zeroproof::verification {

/// The unit roundoff of fp32, bf16 and fp16.
inline bounds::Real unit_of(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8L : dtype == DType::fp16 ? 0x1p-11L : bounds::u;
}
/// Half of the smallest subnormal number.
inline bounds::Real half_tiny_of(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-134L : dtype == DType::fp16 ? 0x1p-25L : bounds::eta;
}
/// Values below it do not overflow.
inline bounds::Real largest_of(DType dtype) {
  return dtype == DType::fp16 ? 65504.0L : dtype == DType::bf16 ? 0x1.FEp127L : bounds::largest;
}
/// k roundings in a format.
inline bounds::Real roundings(int k, bounds::Real unit) {
  return k == 0 ? 0
                : static_cast<bounds::Real>(k) * unit / (1 - static_cast<bounds::Real>(k) * unit);
}

/// Nearest number of the format, ties to even.
float round_to(DType dtype, float value);
inline bool is_number_of(DType dtype, float value) {
  return std::isnan(value) || round_to(dtype, value) == value;
}
/// "0x3f8ccccd (1.1)" in the format.
std::string shown_value(DType dtype, float value);

/// The bound of a value that is stored in a narrower format, with one more rounding.
ElementBound stored_in(DType dtype, ElementBound bound);

/// The sum of `terms` divided by `parts`, added and divided in any order in `unit`: [Sum:any_order] and
/// [Bound:scaled].
ElementBound sum_or_mean_bound(Span<const float> terms, std::int64_t parts, bounds::Real unit);

}  // namespace zeroproof::verification
