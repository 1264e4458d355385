#include <bit>
#include <cmath>
#include <limits>

#include "reference/checks.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

constexpr int bin_bits = 24;
constexpr int not_finite = 255;  // as top: final, because no bin is above it

/// The sum of one element, as the contract names it. lo belongs to bin top - 1.
struct Element {
  std::int32_t& hi;
  std::int32_t& lo;
  std::uint8_t& top;
};

Element element(const BinnedSum& sum, std::size_t i) { return {sum.hi[i], sum.lo[i], sum.top[i]}; }

/// Drops bits below the two kept bins.
void raise(const Element& x, int t) {
  x.lo = t == x.top + 1 ? x.hi : 0;
  x.hi = 0;
  x.top = static_cast<std::uint8_t>(t);
}

void deposit_leaf(const Element& x, float leaf) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(leaf);
  const int e = static_cast<int>(bits >> 23 & 0xFFU);
  const std::uint32_t fraction = bits & 0x7FFFFFU;
  if (e == 0xFF) {
    x.top = not_finite;
    return;
  }
  if (e == 0 && fraction == 0) return;

  // |leaf| = n * 2^(s - 149); subnormals (e = 0) have no hidden bit and the scale of e = 1.
  const std::int64_t n = fraction | (e > 0 ? std::uint32_t{1} << 23 : 0U);
  const int s = (e > 1 ? e : 1) - 1;
  const int b = (s + bin_bits - 1) / bin_bits;
  const int m = s % bin_bits;
  const std::int64_t shifted = n << m;
  // At m = 0 all of n is in bin b; otherwise bin b has the bits above the lowest 24, and bin b - 1
  // the rest.
  const std::int64_t high = m == 0 ? n : shifted >> bin_bits;
  const std::int64_t low = m == 0 ? 0 : shifted % (std::int64_t{1} << bin_bits);
  const std::int64_t sign = (bits >> 31) != 0 ? -1 : 1;
  const auto h = static_cast<std::int32_t>(sign * high);
  const auto l = static_cast<std::int32_t>(sign * low);

  if (b > x.top) raise(x, b);
  if (b == x.top) {
    x.hi += h;
    x.lo += l;
  } else if (b == x.top - 1) {
    x.lo += h;
  }
}

void merge(const Element& from, const Element& into) {
  std::int32_t hi = from.hi;
  std::int32_t lo = from.lo;
  std::uint8_t top = from.top;
  if (top < into.top) raise({hi, lo, top}, into.top);
  if (into.top < top) raise(into, top);
  into.hi += hi;
  into.lo += lo;
}

float finish(const Element& x) {
  if (x.top == not_finite) return std::numeric_limits<float>::quiet_NaN();
  const std::int64_t value = x.top > 0 ? std::int64_t{x.hi} * (1 << bin_bits) + x.lo : x.hi;
  const int lowest_bin = x.top > 0 ? x.top - 1 : 0;
  // The conversion rounds, to nearest even like everything else (R1); the scaling is exact, or
  // overflows.
  return std::ldexp(static_cast<float>(value), bin_bits * lowest_bin - 149);
}

void check_fields(const char* operation, std::size_t numel, const BinnedSum& sum) {
  check_same_numel(operation, "one view", numel, "hi", sum.hi.size());
  check_same_numel(operation, "one view", numel, "lo", sum.lo.size());
  check_same_numel(operation, "one view", numel, "top", sum.top.size());
}

}  // namespace

void binned_deposit(const Exec&, Span<const float> leaf, const BinnedSum& sum) {
  check_fields("binned_deposit", leaf.size(), sum);
  for (std::size_t i = 0; i < leaf.size(); ++i) deposit_leaf(element(sum, i), leaf[i]);
}

void binned_merge(const Exec&, const BinnedSum& from, const BinnedSum& into) {
  check_fields("binned_merge", from.hi.size(), from);
  check_fields("binned_merge", from.hi.size(), into);
  for (std::size_t i = 0; i < from.hi.size(); ++i) merge(element(from, i), element(into, i));
}

void binned_finish(const Exec&, const BinnedSum& sum, Span<float> result) {
  check_fields("binned_finish", result.size(), sum);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = finish(element(sum, i));
}

}  // namespace zeroproof::reference
