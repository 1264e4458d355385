#include "verification/ops/bound_ratio.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

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

/// The results of a call, element by element: shared terms of the operands of one are computed once.
class Results {
 public:
  Results(const Op& op, const OpCall& candidate) : op_(op), candidate_(candidate) {
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      if (op.operands[k].access != Access::in) most_ = std::max(most_, candidate.view(k).numel);
    }
  }

  std::int64_t elements() const { return most_; }

  /// visit(operand, value) of every result of the element.
  template <class Visit>
  void of(std::int64_t i, const Visit& visit) const {
    for (std::size_t k = 0; k < op_.operands.size(); ++k) {
      const TensorView got = candidate_.view(k);
      if (op_.operands[k].access == Access::in || i >= got.numel) continue;
      visit(k, number(got.dtype, element_bits(got, i)));
    }
  }

  std::int64_t beyond(CallBounds& bounds, std::int64_t i) const {
    std::int64_t count = 0;
    of(i, [&](std::size_t k, double got) { count += bounds.of(k, i).ratio(got) <= 1 ? 0 : 1; });
    return count;
  }

 private:
  const Op& op_;
  const OpCall& candidate_;
  std::int64_t most_ = 0;
};

/// The bounds with the pair of powers that leaves the fewest results beyond them; nullptr if without
/// powers there are no more.
std::unique_ptr<CallBounds> fewest_beyond(CallBounds& plain, const Results& results) {
  constexpr std::size_t probes = 16;  // elements of which a pair has to explain one
  std::vector<std::pair<std::int64_t, std::int64_t>> failing;  // and how many results of each
  std::int64_t least = 0;
  for (std::int64_t i = 0; i < results.elements(); ++i) {
    const std::int64_t beyond = results.beyond(plain, i);
    least += beyond;
    if (beyond > 0 && failing.size() < probes) failing.emplace_back(i, beyond);
  }
  std::unique_ptr<CallBounds> best;
  if (least == 0) return best;
  for (std::unique_ptr<CallBounds>& bounds : plain.with_powers()) {
    const auto explained = [&](const auto& at) {
      return results.beyond(*bounds, at.first) < at.second;
    };
    if (std::ranges::none_of(failing, explained)) continue;
    std::int64_t beyond = 0;
    for (std::int64_t i = 0; i < results.elements() && beyond < least; ++i)
      beyond += results.beyond(*bounds, i);
    if (beyond >= least) continue;
    least = beyond;
    best = std::move(bounds);
    if (least == 0) break;
  }
  return best;
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
                      const ElementBound& bound, double got, bool same_bits, bool by_powers) {
  const double off = bound.ratio(got);
  const bool legal = off <= 1;
  ++(same_bits && legal     ? judged.bits
     : by_powers && legal   ? judged.powers
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
                                     const OpCall& candidate, OpCall* illegal, bool fp32_powers) {
  const std::unique_ptr<CallBounds> plain = op.bounds(pristine, candidate);
  const Results results(op, candidate);
  const std::unique_ptr<CallBounds> with_powers =
      fp32_powers ? fewest_beyond(*plain, results) : nullptr;
  CallBounds& bounds = with_powers ? *with_powers : *plain;
  std::vector<BoundRatio> ratios(op.operands.size());
  for (std::int64_t i = 0; i < results.elements(); ++i) {
    results.of(i, [&](std::size_t k, double value) {
      const TensorView got = candidate.view(k);
      const bool legal = ratios[k].look(op.operands[k].name, i, got.numel, bounds.of(k, i), value,
                                        equal_results(reference.view(k), got, i),
                                        with_powers && !(plain->of(k, i).ratio(value) <= 1));
      if (legal) return;
      // Not written by a loop over elements.
      if (op.operands[k].per_element == 0) ratios[k].remainders = 0;
      if (illegal == nullptr) return;
      const std::int64_t width = num_bytes(got.dtype);
      std::memcpy(static_cast<std::byte*>(illegal->view(k).data) + i * width,
                  static_cast<const std::byte*>(got.data) + i * width,
                  static_cast<std::size_t>(width));
    });
  }
  return ratios;
}

BoundRatio bound_ratio(const Op& op, const OpCall& pristine, const OpCall& reference,
                       const OpCall& candidate, OpCall* illegal, bool fp32_powers) {
  BoundRatio all;
  for (const BoundRatio& one :
       bound_ratios(op, pristine, reference, candidate, illegal, fp32_powers))
    all.add(one);
  return all;
}

}  // namespace zeroproof::verification
