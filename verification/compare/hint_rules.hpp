#pragma once
// The differing elements of two buffers, as input of the hint rules.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "verification/compare/hint.hpp"

namespace zeroproof::verification {

/// Bits and values, ordered by position.
struct Differing {
  std::int64_t numel = 0;
  bool is_float = false;
  double half_ulp = 0;  ///< relative
  std::uint64_t sign = 0;
  std::vector<std::int64_t> at;
  std::vector<std::uint64_t> want, got;
  std::vector<double> wanted, gotten;
};

Differing differing_elements(const HintEvidence& evidence);

/// The value of an element of any type.
double number(DType dtype, std::uint64_t bits);

/// True if `rule(i)` holds for every differing element.
template <class Rule>
bool all(const Differing& d, const Rule& rule) {
  for (std::size_t i = 0; i < d.at.size(); ++i) {
    if (!rule(i)) return false;
  }
  return true;
}

/// The common property of all differing elements, "NaN" or "0.1 times the values of grad", by the
/// first rule that fits every one; "" if none does.
std::string what_they_hold(const HintEvidence& evidence, const Differing& differing);

}  // namespace zeroproof::verification
