#include "verification/compare/bounds/fp32_powers.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "verification/compare/bounds/model.hpp"

namespace zeroproof::verification {

std::vector<float> fp32_powers(float beta, std::int64_t t) {
  using bounds::Real;
  const Real exact = std::pow(static_cast<Real>(beta), static_cast<Real>(t));
  const int exponent = std::max(std::ilogb(exact), FLT_MIN_EXP - 1);
  const Real reach = exact > 0 ? std::ldexp(Real{4}, exponent - (FLT_MANT_DIG - 1)) : 0;
  const auto off = [&](float power) { return std::fabs(static_cast<Real>(power) - exact); };
  std::vector<float> powers;
  for (auto power = static_cast<float>(exact - reach); power <= exact + reach && power < 1;
       power = std::nextafter(power, 1.0F)) {
    if (power >= 0 && off(power) <= reach) powers.push_back(power);
  }
  std::ranges::sort(powers, {}, off);
  return powers;
}

}  // namespace zeroproof::verification
