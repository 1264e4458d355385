#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "common/base/error.hpp"
#include "reference/blocks.hpp"
#include "reference/checks.hpp"
#include "reference/gradients/limb_deposit.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

constexpr int num_lanes = 32;
constexpr int num_limbs = 21;
constexpr std::uint32_t magnitude_mask = 0x7FFFFFFFU;
constexpr std::uint32_t infinity_bits = 0x7F800000U;

static_assert(block_numel == norm_chunk_numel, "one block is one chunk of the norm");

/// Sum of squares of one chunk: 32 lanes side by side, then a tree that halves them (R12,
/// [Norm:chunk]).
double chunk_sum(const ConstArray& grad) {
  // Column s has elements 32 s .. 32 s + 31; missing elements of the last chunk are +0.
  Eigen::Array<float, num_lanes, num_lanes> g1 = Eigen::Array<float, num_lanes, num_lanes>::Zero();
  MutableArray(g1.data(), g1.size()).head(grad.size()) = grad;

  Eigen::Array<double, num_lanes, 1> a = Eigen::Array<double, num_lanes, 1>::Zero();
  for (int s = 0; s < num_lanes; ++s) {
    const Eigen::Array<double, num_lanes, 1> x = g1.col(s).cast<double>();
    a = a + x * x;
  }
  for (int w = num_lanes / 2; w >= 1; w /= 2) a.head(w) = a.head(w) + a.segment(w, w);
  return a[0];
}

/// Deposits term(x) for every element. Limbs take 2^32 - 1 deposits between two normalisations; a
/// block has 1024.
template <class Term>
void deposit_each(Span<const float> grad, NormLimbs& limbs, Term term) {
  for_each_block(numel(grad), [&](std::int64_t begin, std::int64_t count) {
    grad_norm_normalise(limbs);
    for (const float x : part(grad, begin, count)) deposit(term(double{x}), limbs);
  });
}

/// Bit `position` of the integer in normalised limbs; the last limb may have more than 32 bits.
bool bit(const NormLimbs& limbs, int position) {
  if (position < 0) return false;
  const int limb = std::min(position / 32, num_limbs - 1);
  return (limbs.limbs[limb] >> (position - 32 * limb) & 1U) != 0;
}

/// The value of normalised limbs, rounded once to fp64, ties to even.
double rounded_once(const NormLimbs& limbs) {
  int top = 32 * (num_limbs - 1) + 63;
  while (top >= 0 && !bit(limbs, top)) --top;
  if (top < 0) return 0;

  std::uint64_t mantissa = 0;
  for (int position = top; position > top - 53; --position) {
    mantissa = 2 * mantissa + (bit(limbs, position) ? 1 : 0);
  }

  const int half = top - 53;  // the first bit that does not fit
  bool below_half = false;
  for (int position = half - 1; position >= 0; --position)
    below_half = below_half || bit(limbs, position);
  if (bit(limbs, half) && (below_half || mantissa % 2 == 1)) mantissa += 1;

  // At most 2^53, hence exact; the scaling is exact too, because the range of fp64 exceeds that of
  // the limbs.
  return std::ldexp(static_cast<double>(mantissa), top - 52 + lowest_weight);
}

}  // namespace

void grad_norm_accumulate(const Exec&, Span<const float> grad, NormLimbs& limbs) {
  // Normalised limbs take 2^32 - 1 deposits before the next carry [Norm:carry]; only a span of 2^42
  // elements has as many.
  grad_norm_normalise(limbs);
  for_each_block(numel(grad), [&](std::int64_t begin, std::int64_t count) {
    deposit(chunk_sum(as_array(part(grad, begin, count))), limbs);
  });
}

void grad_norm_exact_accumulate(const Exec&, Span<const float> grad, NormLimbs& limbs) {
  deposit_each(grad, limbs, [](double x) { return x * x; });  // 48 bits: exact in fp64 [Norm:exact]
}

void grad_abs_accumulate(const Exec&, Span<const float> grad, NormLimbs& limbs) {
  deposit_each(grad, limbs, [](double x) { return std::fabs(x); });
}

void grad_max_accumulate(const Exec&, Span<const float> grad, std::uint32_t& amax) {
  for (const float x : grad) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x) & magnitude_mask;
    // Magnitudes are ordered like their bits; every NaN counts as the largest of them (R9).
    amax = std::max(amax, magnitude > infinity_bits ? magnitude_mask : magnitude);
  }
}

void grad_norm_normalise(NormLimbs& limbs) {
  for (std::size_t i = 0; i + 1 < limbs.limbs.size(); ++i) {
    limbs.limbs[i + 1] += limbs.limbs[i] >> 32;
    limbs.limbs[i] &= digit_mask;
  }
}

// The root of NaN is NaN and that of infinity is infinity.
double grad_norm_finish(const NormLimbs& limbs) { return std::sqrt(grad_abs_finish(limbs)); }

double grad_abs_finish(const NormLimbs& limbs) {
  if (limbs.nan_count > 0) return std::numeric_limits<double>::quiet_NaN();
  if (limbs.inf_count > 0) return std::numeric_limits<double>::infinity();
  NormLimbs normalised = limbs;
  grad_norm_normalise(normalised);
  return rounded_once(normalised);
}

double grad_max_finish(std::uint32_t amax) {
  if (amax > infinity_bits) return std::numeric_limits<double>::quiet_NaN();
  return double{std::bit_cast<float>(amax)};
}

double grad_norm_p(const Exec&, Span<const float> grad, double p) {
  ZP_CHECK(std::isfinite(p) && p > 0, ErrorCode::invalid_argument,
           "the order of a p-norm is " + text(p), "this form needs a finite p above 0",
           "use such a p; 'inf' is a separate form");
  std::uint32_t largest = 0;
  grad_max_accumulate({}, grad, largest);
  const double amax = grad_max_finish(largest);
  if (!std::isfinite(amax) || amax == 0) return amax;

  // Every quotient is in [0, 1] and the largest is 1, so no power overflows and the sum is never 0
  // [Norm:p].
  double sum = 0;
  for (const float x : grad) sum += std::pow(std::fabs(double{x}) / amax, p);
  return amax * std::pow(sum, 1 / p);
}

}  // namespace zeroproof::reference
