#include "verification/ops/bound_ratio.hpp"

#include <algorithm>
#include <cstring>

#include "verification/compare/compare.hpp"
#include "verification/compare/hint_rules.hpp"
#include "verification/ops/op.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

bool equal_results(const TensorView& want, const TensorView& got, std::int64_t i) {
  const std::uint64_t a = element_bits(want, i), b = element_bits(got, i);
  return a == b || (is_nan_bits(want.dtype, a) && is_nan_bits(got.dtype, b));
}

/// "is inf and has to be NaN"
std::string violation_of(const ElementBound& bound, double got) {
  const auto exact = static_cast<double>(bound.exact);
  const std::string is = std::isnan(got) ? "NaN" : fmt::format("{:.9g}", got);
  std::string has_to_be = "a finite number";
  if (!bound.judged) {
    has_to_be = bound.classes.names();
  } else if (!std::isfinite(exact)) {
    has_to_be = ResultClasses::of(exact).names();
  } else if (std::isfinite(got)) {
    has_to_be = fmt::format("{:.9g}", exact);
  }
  return fmt::format("is {} and has to be {}", is, has_to_be);
}

}  // namespace

void BoundRatio::add(const BoundRatio& other) {
  judged.add(other.judged);
  beyond += other.beyond;
  remainders &= other.remainders;
  if (other.worst <= worst) return;
  worst = other.worst;
  buffer = other.buffer;
  index = other.index;
  call = other.call;
  violation = other.violation;
}

bool BoundRatio::look(const std::string& of, std::int64_t i, std::int64_t numel,
                      const ElementBound& bound, double got, bool same_bits) {
  const double off = bound.ratio(got);
  const bool legal = off <= 1;
  ++(same_bits && legal     ? judged.bits
     : bound.judged         ? judged.bound
     : !bound.classes.all() ? judged.classes
                            : judged.nothing);
  if (off > worst) {
    worst = off;
    buffer = of;
    index = i;
    violation = std::isinf(off) ? violation_of(bound, got) : "";
  }
  if (legal) return true;
  ++beyond;
  for (std::size_t w = 0; w < std::size(vector_widths); ++w) {
    if (i < numel - numel % vector_widths[w]) remainders &= ~(1U << w);
  }
  return false;
}

std::string to_string(const BoundRatio& ratio) {
  const JudgedBy& by = ratio.judged;
  std::string rest;
  if (by.classes + by.nothing > 0)
    rest = fmt::format(" ({} of {} results are judged by class alone, {} not at all)", by.classes,
                       by.total(), by.nothing);
  if (ratio.beyond == 0) {
    if (by.too_few()) return "not judged against legal orders" + rest;
    return fmt::format(
        "within the bound of any legal order: at most {:.3g} of it{}; another order "
        "of the same formula, which --accept any-order takes{}",
        ratio.worst, ratio.buffer.empty() ? "" : ", in " + ratio.buffer, rest);
  }
  std::string place;
  for (std::size_t w = 0; w < std::size(BoundRatio::vector_widths) && place.empty(); ++w) {
    if ((ratio.remainders >> w & 1U) == 0) continue;
    place = fmt::format(", always in the remainder of a loop over {} elements",
                        BoundRatio::vector_widths[w]);
  }
  const std::string worst =
      ratio.violation.empty() ? fmt::format("has {:.3g} times the error of its bound", ratio.worst)
                              : ratio.violation;
  return fmt::format("in no legal order: {} results are beyond their bound{}{}; {}[{}] {}{}",
                     ratio.beyond, ratio.violation.empty() ? "" : " or of a wrong class", place,
                     ratio.buffer, ratio.index, worst, ratio.call.empty() ? "" : "; " + ratio.call);
}

std::vector<BoundRatio> bound_ratios(const Op& op, const OpCall& pristine, const OpCall& reference,
                                     const OpCall& candidate, OpCall* illegal) {
  const std::unique_ptr<CallBounds> bounds = op.bounds(pristine, candidate);
  std::vector<BoundRatio> ratios(op.operands.size());
  std::int64_t most = 0;
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    if (op.operands[k].access != Access::in) most = std::max(most, candidate.view(k).numel);
  }
  for (std::int64_t i = 0; i < most;
       ++i) {  // shared terms of the operands of an element are computed once
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      const TensorView got = candidate.view(k);
      if (op.operands[k].access == Access::in || i >= got.numel) continue;
      const bool legal = ratios[k].look(op.operands[k].name, i, got.numel, bounds->of(k, i),
                                        number(got.dtype, element_bits(got, i)),
                                        equal_results(reference.view(k), got, i));
      if (legal) continue;
      // Not written by a loop over elements.
      if (op.operands[k].per_element == 0) ratios[k].remainders = 0;
      if (illegal == nullptr) continue;
      const std::int64_t width = num_bytes(got.dtype);
      std::memcpy(static_cast<std::byte*>(illegal->view(k).data) + i * width,
                  static_cast<const std::byte*>(got.data) + i * width,
                  static_cast<std::size_t>(width));
    }
  }
  return ratios;
}

BoundRatio bound_ratio(const Op& op, const OpCall& pristine, const OpCall& reference,
                       const OpCall& candidate, OpCall* illegal) {
  BoundRatio all;
  for (const BoundRatio& one : bound_ratios(op, pristine, reference, candidate, illegal))
    all.add(one);
  return all;
}

}  // namespace zeroproof::verification
