#include "verification/compare/hint_rules.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <set>

#include "verification/compare/compare.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t few =
    3;  ///< elements that may agree by chance or because all values are equal

bool all_equal(const std::vector<std::uint64_t>& values) {
  return std::set<std::uint64_t>(values.begin(), values.end()).size() < 2;
}

std::string unwritten(const HintEvidence& e, const Differing& d) {
  if (e.before.data == nullptr || e.before.dtype != e.got.dtype || e.before.numel < d.numel)
    return {};
  const bool same =
      all(d, [&](std::size_t i) { return element_bits(e.before, d.at[i]) == d.got[i]; });
  return same ? "their previous values: not written, or written with old values" : "";
}

std::string of_one_kind(const HintEvidence&, const Differing& d) {
  if (!d.is_float) return {};
  if (all(d, [&](std::size_t i) { return std::isnan(d.gotten[i]); })) return "NaN";
  if (all(d, [&](std::size_t i) { return std::isinf(d.gotten[i]); })) return "infinity";
  if (all(d, [&](std::size_t i) { return d.gotten[i] == 0 && d.wanted[i] != 0; })) return "0";
  if (all(d, [&](std::size_t i) { return d.gotten[i] == 0 && d.wanted[i] == 0; })) {
    return "0 with the other sign: a zero was added, or a product left out";
  }
  if (all(d, [&](std::size_t i) { return d.got[i] == (d.want[i] ^ d.sign); })) {
    return "the expected values with the other sign";
  }
  return {};
}

std::string of_ones(const HintEvidence&, const Differing& d) {
  return all(d, [&](std::size_t i) { return d.gotten[i] == 1; }) ? "1" : "";
}

/// "1 more than expected", if true for all.
std::string of_a_count(const HintEvidence& e, const Differing& d) {
  if (e.meaning != Meaning::count) return {};
  const int unused = 64 - 8 * static_cast<int>(num_bytes(e.want.dtype));
  const auto off = [&](std::size_t i) {  // difference modulo the width of the words
    return static_cast<std::int64_t>((d.got[i] - d.want[i]) << unused) >> unused;
  };
  const std::int64_t first = off(0);
  if (!all(d, [&](std::size_t i) { return off(i) == first; })) return {};
  return std::to_string(std::abs(first)) + (first > 0 ? " more" : " less") + " than expected";
}

std::string of_another(const HintEvidence& e, const Differing& d) {
  if (d.at.size() < few || all_equal(d.got)) return {};
  for (const NamedView& other : e.others) {
    if (other.view.dtype != e.got.dtype || other.view.numel != e.got.numel) continue;
    if (all(d, [&](std::size_t i) { return element_bits(other.view, d.at[i]) == d.got[i]; })) {
      return "the values of " + other.name;
    }
  }
  return {};
}

std::string of_a_neighbour(const HintEvidence& e, const Differing& d) {
  if (d.at.size() < few || all_equal(d.got)) return {};
  for (std::int64_t distance = 1; distance <= 8; ++distance) {
    for (const std::int64_t step : {distance, -distance}) {
      std::size_t matched = 0;
      const bool same = all(d, [&](std::size_t i) {
        const std::int64_t from = d.at[i] + step;
        if (from < 0 || from >= d.numel) return true;  // the last element has no neighbour
        ++matched;
        return element_bits(e.want, from) == d.got[i];
      });
      if (!same || matched < few) continue;
      const std::string which =
          distance == 1 ? "" : ", " + std::to_string(distance) + " places away";
      return std::string("the value expected in the ") + (step > 0 ? "next" : "previous") +
             " element" + which;
    }
  }
  return {};
}

/// The correct numbers in other positions.
std::string of_other_places(const HintEvidence&, const Differing& d) {
  if (d.at.size() < few || all_equal(d.got)) return {};
  std::vector<std::uint64_t> want = d.want;
  std::vector<std::uint64_t> got = d.got;
  std::sort(want.begin(), want.end());
  std::sort(got.begin(), got.end());
  return want == got ? "the expected values in another order" : "";
}

/// fp64 near the correct value, with the 24 bits of fp32: 29 zero bits are not a coincidence.
std::string of_single_precision(const Differing& d) {
  constexpr std::uint64_t below = (std::uint64_t{1} << 29) - 1;
  const bool narrow = all(d, [&](std::size_t i) {
    return (d.got[i] & below) == 0 && (d.want[i] & below) != 0 &&
           std::fabs(d.gotten[i] - d.wanted[i]) <= 0x1p-18 * std::fabs(d.wanted[i]);
  });
  return narrow ? "numbers with the precision of fp32, near the correct ones, which have more" : "";
}

/// Numbers with the precision of a narrower format, where the correct ones have more.
std::string of_a_narrower_format(const HintEvidence& e, const Differing& d) {
  if (e.want.dtype == DType::fp64) return of_single_precision(d);
  if (e.want.dtype != DType::fp32 || d.at.size() < few || all_equal(d.got)) return {};
  const auto zero_below = [&](const std::vector<std::uint64_t>& bits, int digits) {
    const auto rounded = [&](std::uint64_t word) {
      return (word & ((std::uint64_t{1} << digits) - 1)) == 0;
    };
    return std::count_if(bits.begin(), bits.end(), rounded);
  };
  for (const auto& [digits, format] : {std::pair{16, "bf16"}, {13, "fp16"}}) {
    const auto count = static_cast<std::ptrdiff_t>(d.at.size());
    if (zero_below(d.got, digits) == count && 4 * zero_below(d.want, digits) <= count) {
      return std::string("numbers with the precision of ") + format +
             ", where the correct ones have more";
    }
  }
  return {};
}

/// |value| = 2^exponent.
bool is_power_of_two(double value, int& exponent) {
  const bool power = std::frexp(std::fabs(value), &exponent) == 0.5;
  --exponent;
  return power;
}

/// "3", and "2^-16" for a power of two that is hard to recognise in decimal digits.
std::string plain(double value) {
  int exponent = 0;
  if (is_power_of_two(value, exponent) && std::abs(exponent) > 9)
    return (value < 0 ? "-2^" : "2^") + std::to_string(exponent);
  char text[40];
  std::snprintf(text, sizeof(text), "%.7g", value);
  return text;
}

/// The common ratio of all elements.
std::optional<double> common_ratio(const Differing& d) {
  const double tiny = std::numeric_limits<double>::min();
  std::size_t largest = 0;
  for (std::size_t i = 0; i < d.at.size(); ++i) {
    if (!std::isfinite(d.wanted[i]) || !std::isfinite(d.gotten[i])) return std::nullopt;
    if (std::fabs(d.wanted[i]) < tiny || std::fabs(d.gotten[i]) < tiny) return std::nullopt;
    if (std::fabs(d.wanted[i]) > std::fabs(d.wanted[largest])) largest = i;
  }
  const double ratio = d.gotten[largest] / d.wanted[largest];
  const double allowed = 4 * d.half_ulp * std::fabs(ratio);
  if (std::fabs(ratio - 1) <= 16 * d.half_ulp) return std::nullopt;  // a rounding, not a factor
  const bool same = all(
      d, [&](std::size_t i) { return std::fabs(d.gotten[i] / d.wanted[i] - ratio) <= allowed; });
  return same ? std::optional<double>(ratio) : std::nullopt;
}

/// "divided by 7, the number of micro-batches", with every factor of that value.
std::string named(const HintEvidence& e, const Differing& d, double ratio) {
  // A factor of fp64 numbers may be 1 / fp32(1 / M), which is within two roundings to fp32 of M.
  const double allowed = std::max(8 * d.half_ulp, 0x1p-23);
  for (const bool divided : {false, true}) {
    std::string names;
    double value = 1;
    for (const NamedFactor& factor : e.factors) {
      if (!std::isfinite(factor.value) || factor.value == 0 ||
          std::fabs(factor.value - 1) <= allowed)
        continue;
      const double made = divided ? 1 / factor.value : factor.value;
      if (std::fabs(ratio / made - 1) > allowed) continue;
      names += (names.empty() ? "" : ", or ") + factor.name;
      value = factor.value;
    }
    if (!names.empty())
      return (divided ? "divided by " : "multiplied by ") + plain(value) + ", " + names;
  }
  return {};
}

std::string of_a_factor(const HintEvidence& e, const Differing& d) {
  if (!d.is_float || d.at.empty()) return {};
  const std::optional<double> ratio = common_ratio(d);
  if (!ratio) return {};
  const std::string name = named(e, d, *ratio);
  if (!name.empty()) return "the expected values " + name;
  const double whole = std::round(std::fabs(*ratio) < 1 ? 1 / *ratio : *ratio);
  const double exact = std::fabs(*ratio) < 1 ? 1 / whole : whole;
  // In fp64 a small integer or a power of two is not a coincidence, even for a single element.
  int exponent = 0;
  const bool exact_factor = e.want.dtype == DType::fp64 &&
                            (is_power_of_two(*ratio, exponent) ||
                             (std::fabs(whole) <= 16 && std::fabs(*ratio / exact - 1) <= 0x1p-50));
  if (!exact_factor && (d.at.size() < few || all_equal(d.want))) return {};
  return plain(*ratio) + " times the expected values";
}

/// Whether each `value` is `factor` times the element of the other buffer, within the rounding
/// error of two sums and a product.
bool is_multiple(const Differing& d, const std::vector<double>& value,
                 const std::vector<double>& other, double factor) {
  bool significant = false;  // at least one value is above rounding error
  const bool same = all(d, [&](std::size_t i) {
    const double allowed = 4 * d.half_ulp * (std::fabs(d.wanted[i]) + std::fabs(d.gotten[i])) +
                           8 * d.half_ulp * std::fabs(factor * other[i]);
    significant = significant || std::fabs(factor * other[i]) > 64 * allowed;
    return std::fabs(value[i] - factor * other[i]) <= allowed;  // false for NaN
  });
  return same && significant;
}

/// "0.1 times the values of grad", or the correct value plus that.
std::string of_a_multiple(const HintEvidence& e, const Differing& d) {
  if (!d.is_float || d.at.size() < few) return {};
  std::vector<NamedView> sources = e.others;
  if (e.before.data != nullptr) sources.push_back({"", e.before});
  std::vector<double> more(d.at.size());
  for (std::size_t i = 0; i < more.size(); ++i) more[i] = d.gotten[i] - d.wanted[i];
  for (const NamedView& source : sources) {
    if (source.view.dtype != e.got.dtype || source.view.numel < d.numel) continue;
    std::vector<double> other(d.at.size());
    for (std::size_t i = 0; i < other.size(); ++i) {
      other[i] = number(source.view.dtype, element_bits(source.view, d.at[i]));
    }
    if (!all(d, [&](std::size_t i) { return std::isfinite(other[i]); })) continue;
    const auto largest = static_cast<std::size_t>(
        std::max_element(other.begin(), other.end(),
                         [](double a, double b) { return std::fabs(a) < std::fabs(b); }) -
        other.begin());
    if (other[largest] == 0) continue;
    const std::string values =
        source.name.empty() ? "their previous values" : "the values of " + source.name;
    if (const double factor = d.gotten[largest] / other[largest];
        is_multiple(d, d.gotten, other, factor) && !is_multiple(d, d.wanted, other, factor)) {
      return plain(factor) + " times " + values;
    }
    if (const double factor = more[largest] / other[largest]; is_multiple(d, more, other, factor)) {
      return "the expected values plus " + plain(factor) + " times " + values;
    }
  }
  return {};
}

std::string of_a_rounding(const HintEvidence& e, const Differing& d) {
  if (!d.is_float) return {};
  const bool near = all(d, [&](std::size_t i) {
    if (!std::isfinite(d.wanted[i]) || !std::isfinite(d.gotten[i]) ||
        ((d.want[i] ^ d.got[i]) & d.sign) != 0)
      return false;
    return std::max(d.want[i], d.got[i]) - std::min(d.want[i], d.got[i]) <=
           2;  // bits of one sign are ordered
  });
  if (!near) return {};
  return std::string("a neighbouring number, at most 2 units in the last place away") +
         (e.no_order ? "" : ": the same formula in another order, or rounded in another way");
}

/// Sums with cancellation differ by more units of their own, but not of the summands.
std::string of_a_sum_in_another_order(const HintEvidence& e, const Differing& d) {
  if (!d.is_float || d.at.size() < few || e.no_order) return {};
  double largest = 0;
  for (std::int64_t i = 0; i < d.numel; ++i) {
    const double x = std::fabs(number(e.want.dtype, element_bits(e.want, i)));
    if (std::isfinite(x)) largest = std::max(largest, x);
  }
  std::size_t neighbours = 0;
  const bool near = all(d, [&](std::size_t i) {
    if (((d.want[i] ^ d.got[i]) & d.sign) == 0 &&
        std::max(d.want[i], d.got[i]) - std::min(d.want[i], d.got[i]) <= 2)
      ++neighbours;
    return std::fabs(d.gotten[i] - d.wanted[i]) <= 4 * d.half_ulp * largest;  // false for NaN
  });
  if (!near || 4 * neighbours < 3 * d.at.size()) return {};
  return "neighbouring numbers, three in four at most 2 units in the last place away: the same "
         "sums in "
         "another order, or "
         "rounded in another way";
}

}  // namespace

std::string what_they_hold(const HintEvidence& evidence, const Differing& differing) {
  if (!differing.is_float) {
    std::string held = unwritten(evidence, differing);
    return held.empty() ? of_a_count(evidence, differing) : held;
  }
  for (const auto rule :
       {unwritten, of_one_kind, of_another, of_a_neighbour, of_other_places, of_a_narrower_format,
        of_a_factor, of_a_multiple, of_a_rounding, of_a_sum_in_another_order, of_ones}) {
    std::string held = rule(evidence, differing);
    if (!held.empty()) return held;
  }
  return {};
}

}  // namespace zeroproof::verification
