#include "verification/compare/hint.hpp"

#include <algorithm>

#include "common/base/float_formats.hpp"
#include "verification/compare/compare.hpp"
#include "verification/compare/hint_rules.hpp"
#include "verification/compare/limbs_hint.hpp"

namespace zeroproof::verification {
namespace {

/// The relative error of rounding to a format once.
double half_ulp_of(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return 0x1p-53;
    case DType::fp32:
      return 0x1p-24;
    case DType::fp16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::e4m3:
      return 0x1p-4;
    case DType::e5m2:
      return 0x1p-3;
    default:
      return 0;
  }
}

/// The position of the elements if it indicates a cause: the remainder of a vector loop, or one
/// block.
std::string telling_place(const Differing& d) {
  const std::int64_t first = d.at.front();
  const std::int64_t last = d.at.back();
  const auto count = static_cast<std::int64_t>(d.at.size());
  for (const std::int64_t width : {4, 8, 16, 32, 64}) {
    const std::int64_t rest = d.numel % width;
    if (d.numel > width && rest > 0 && first >= d.numel - rest) {
      return "only in the last " + std::to_string(d.numel) + " mod " + std::to_string(width) +
             " = " + std::to_string(rest) + " elements: the remainder of a loop over vectors";
    }
  }
  const std::int64_t length = last - first + 1;
  if (count >= 2 && length < d.numel && 10 * count >= 9 * length) {
    return "only in elements " + std::to_string(first) + " to " + std::to_string(last) + " of " +
           std::to_string(d.numel);
  }
  return {};
}

std::string place(const HintEvidence& e, const Differing& d) {
  const auto count = static_cast<std::int64_t>(d.at.size());
  if (count == d.numel) return d.numel == 1 ? "" : "in all " + std::to_string(count) + " elements";
  if (std::string telling = telling_place(d); !telling.empty()) return telling;
  std::int64_t zeros = 0;
  for (std::int64_t i = 0; i < d.numel; ++i)
    zeros += number(e.want.dtype, element_bits(e.want, i)) == 0 ? 1 : 0;
  if (count + zeros == d.numel) return "in every element that should not be 0";
  return "in " + std::to_string(count) + " of " + std::to_string(d.numel) + " elements";
}

}  // namespace

double number(DType dtype, std::uint64_t bits) {
  return visit_format(dtype, [&](auto format) -> double {
    using Format = decltype(format);
    if constexpr (Format::is_float) return value_of<Format>(bits);
    return static_cast<double>(bits);
  });
}

Differing differing_elements(const HintEvidence& e) {
  Differing d;
  d.numel = std::min(e.want.numel, e.got.numel);
  d.half_ulp = half_ulp_of(e.want.dtype);
  d.is_float = d.half_ulp > 0;
  d.sign = std::uint64_t{1} << (8 * num_bytes(e.want.dtype) - 1);
  for (std::int64_t i = 0; i < d.numel; ++i) {
    const std::uint64_t want = element_bits(e.want, i);
    const std::uint64_t got = element_bits(e.got, i);
    const bool both_nan = is_nan_bits(e.want.dtype, want) && is_nan_bits(e.got.dtype, got);
    if (want == got || both_nan) continue;
    d.at.push_back(i);
    d.want.push_back(want);
    d.got.push_back(got);
    d.wanted.push_back(number(e.want.dtype, want));
    d.gotten.push_back(number(e.got.dtype, got));
  }
  return d;
}

std::string hint(const HintEvidence& evidence) {
  const Differing d = differing_elements(evidence);
  if (d.at.empty()) return {};
  const std::string held = what_they_hold(evidence, d);
  if (held.empty() && evidence.meaning == Meaning::limbs) return limbs_hint(evidence);
  if (held.empty()) return d.is_float ? telling_place(d) : "";
  const std::string where = d.is_float ? place(evidence, d) : "";
  return "they hold " + held + (where.empty() ? "" : "; " + where);
}

}  // namespace zeroproof::verification
