#include "verification/ops/bound_ratio.hpp"

#include <algorithm>
#include <cstdio>

#include "verification/compare/compare.hpp"
#include "verification/compare/hint_rules.hpp"
#include "verification/ops/op.hpp"

namespace zeroproof::verification {

void BoundRatio::add(const BoundRatio& other) {
  judged += other.judged;
  outside += other.outside;
  beyond += other.beyond;
  remainders &= other.remainders;
  if (worst != worst || other.worst <= worst) return;
  worst = other.worst;
  buffer = other.buffer;
  index = other.index;
}

void BoundRatio::look(const std::string& of, std::int64_t i, std::int64_t numel,
                      const ElementBound& bound, double got) {
  if (!bound.judged) return add({0, of, i, 0, 1});
  const double off = bound.ratio(got);
  add({off, of, i, 1, 0});
  if (off <= 1) return;
  ++beyond;
  for (std::size_t w = 0; w < std::size(vector_widths); ++w) {
    if (i < numel - numel % vector_widths[w]) remainders &= ~(1U << w);
  }
}

std::string to_string(const BoundRatio& ratio) {
  char worst[32];
  std::snprintf(worst, sizeof(worst), "%.3g", ratio.worst);
  const std::string of = std::to_string(ratio.outside) + " of " +
                         std::to_string(ratio.judged + ratio.outside) +
                         " results are beyond the bound's conditions";
  if (ratio.judged == 0) return "not judged against legal orders (" + of + ")";
  if (ratio.worst <= 1) {
    return std::string("within the bound of any legal order: at most ") + worst + " of it" +
           (ratio.buffer.empty() ? "" : ", in " + ratio.buffer) +
           "; another order of the same formula, which --accept any-order takes (" + of + ")";
  }
  std::string place;
  for (std::size_t w = 0; w < std::size(BoundRatio::vector_widths) && place.empty(); ++w) {
    if ((ratio.remainders >> w & 1U) == 0) continue;
    place = ", always in the remainder of a loop over " +
            std::to_string(BoundRatio::vector_widths[w]) + " elements";
  }
  return "in no legal order: " + std::to_string(ratio.beyond) + " results are beyond their bound" +
         place + "; " + ratio.buffer + "[" + std::to_string(ratio.index) + "] is " + worst +
         " times as far from exact arithmetic as one may leave it (" + of + ")";
}

std::vector<BoundRatio> bound_ratios(const Op& op, const OpCall& pristine,
                                     const OpCall& candidate) {
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
      ratios[k].look(op.operands[k].name, i, got.numel, bounds->of(k, i),
                     number(got.dtype, element_bits(got, i)));
      // Not written by a loop over elements.
      if (op.operands[k].per_element == 0 && ratios[k].beyond > 0) ratios[k].remainders = 0;
    }
  }
  return ratios;
}

BoundRatio bound_ratio(const Op& op, const OpCall& pristine, const OpCall& candidate) {
  BoundRatio all;
  for (const BoundRatio& one : bound_ratios(op, pristine, candidate)) all.add(one);
  return all;
}

}  // namespace zeroproof::verification
