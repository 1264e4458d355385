#include "verification/compare/bounds/power_sum.hpp"

#include <algorithm>
#include <cmath>

namespace zeroproof::verification {

using bounds::Real;
using bounds::u;

void PowerSum::add(Real term) {
  if (term == 0) return;
  Binade& binade = binades_[std::ilogb(term)];
  binade.sum += term;
  ++binade.count;
  const Real corrected = term - lost_;
  const Real next = total_ + corrected;
  lost_ = (next - total_) - corrected;
  total_ = next;
  ++count_;
}

void PowerSum::add_unknown(Real sum, std::int64_t count) {
  unknown_.sum += sum;
  unknown_.count += count;
  total_ += sum;
  count_ += count;
}

void PowerSum::add(const PowerSum& other) {
  for (const auto& [exponent, binade] : other.binades_) {
    binades_[exponent].sum += binade.sum;
    binades_[exponent].count += binade.count;
  }
  unknown_.sum += other.unknown_.sum;
  unknown_.count += other.unknown_.count;
  total_ += other.total_;
  count_ += other.count_;
}

Real PowerSum::sum_error() const {
  if (count_ == 0) return 0;
  const auto n = static_cast<Real>(count_);
  // Half of the spacing of the largest partial sum; 2^-10 covers the roundings of the terms.
  const Real spacing = u * total_ * (1 + n * u) * (1 + 0x1p-10L);
  const auto lost = [&](const Binade& b) {
    return std::min(b.sum, static_cast<Real>(b.count) * spacing);
  };
  Real most = lost(unknown_);
  for (const auto& [exponent, binade] : binades_) most += lost(binade);
  return std::min((n - 1) * u, (most + 5 * n * u * spacing) / total_);
}

Real PowerSum::norm_error(Real p) const {
  if (count_ == 0) return 0;
  const Real sum = sum_error();
  if (!(p >= 0.5L && sum <= 0.6L)) return -1;
  const Real rest = 1.01L * ((8 + std::log(static_cast<Real>(count_))) / p + 11) * u;
  const Real below = 1 - std::pow(1 - sum, 1 / p) * (1 - rest);
  const Real above = std::pow(1 + sum, 1 / p) * (1 + rest) - 1;
  return std::max(below, above);
}

}  // namespace zeroproof::verification
