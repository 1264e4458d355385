#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/error.hpp"
#include "common/step/portable_math64.hpp"
#include "reference/checks.hpp"
#include "reference/formats/calibration_checks.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

float bin_edge(std::size_t k, float width) {
  return static_cast<float>(static_cast<double>(k) * static_cast<double>(width));
}

/// R26, D(i).
double divergence(const std::vector<std::uint64_t>& h, std::size_t i, std::size_t levels) {
  std::uint64_t beyond = 0, inside = 0;
  for (std::size_t k = i; k < h.size(); ++k) beyond += h[k];
  std::vector<std::uint64_t> elements(levels, 0), used(levels, 0);
  for (std::size_t j = 0; j < i; ++j) {
    const std::size_t level = j * levels / i;
    inside += h[j];
    elements[level] += h[j];
    if (h[j] > 0) used[level] += 1;
  }
  if (h[i - 1] == 0 && beyond > 0) return std::numeric_limits<double>::infinity();
  double s = 0;
  for (std::size_t j = 0; j < i; ++j) {
    if (h[j] == 0) continue;
    const std::size_t level = j * levels / i;
    const double q = static_cast<double>(elements[level]) / static_cast<double>(used[level]);
    const auto p = static_cast<double>(j == i - 1 ? h[j] + beyond : h[j]);
    const double r = p / q;
    const double l = portable_math64::log(r);
    const double y = p * l;
    s = s + y;
  }
  const auto all = static_cast<double>(inside + beyond);
  const double r = static_cast<double>(inside) / all;
  const double l = portable_math64::log(r);
  const double u = s / all;
  return u + l;
}

/// R26: a[m], as bits; values that are no magnitude stay as they are.
std::uint32_t clip_candidate(std::uint32_t amax, int m) {
  if (amax > 0x7F800000U) return amax;
  const double exact = static_cast<double>(std::bit_cast<float>(amax)) * m * 0x1p-5;
  return std::bit_cast<std::uint32_t>(static_cast<float>(exact));
}

/// R26: s of one channel.
float smooth_scale(double alpha, std::uint32_t input, std::uint32_t weight) {
  if (input >= 0x7F800000U || weight >= 0x7F800000U) return 1.0F;
  const auto x = static_cast<double>(std::bit_cast<float>(input));
  const auto y = static_cast<double>(std::bit_cast<float>(weight));
  if (x <= 0x1p-31) return 1.0F;
  double v = 1, u = 1;
  if (alpha == 1) {
    v = x;
  } else {
    const double rest = 1 - alpha;
    if (alpha != 0) v = portable_math64::exp(alpha * portable_math64::log(x));
    if (y == 0) {
      u = 0;
    } else {
      u = alpha == 0 ? y : portable_math64::exp(rest * portable_math64::log(y));
    }
  }
  const auto s = static_cast<float>(u / v);
  constexpr auto low = static_cast<float>(1e-4);
  if (s < low) return low;
  return s > 1e4F ? 1e4F : s;
}

}  // namespace

float percentile_amax(Span<const std::uint64_t> count, float width, double percentile) {
  check_bins("percentile_amax", numel(count), width);
  ZP_CHECK(percentile >= 0 && percentile <= 100, ErrorCode::invalid_argument,
           "percentile_amax: the percentile is " + text(percentile), "it is a percentage",
           "pass a number from 0 to 100");
  const auto n = static_cast<double>(check_counts("percentile_amax", count));
  const double q = percentile / 100;
  const double t = q * n;
  std::uint64_t sum = 0;
  std::size_t k = 0;
  for (; k + 1 < count.size(); ++k) {
    sum += count[k];
    if (static_cast<double>(sum) >= t) break;
  }
  return bin_edge(k, width);
}

float entropy_amax(const Exec&, Span<const std::uint64_t> count, float width, int bits) {
  check_bins("entropy_amax", numel(count), width);
  ZP_CHECK(bits >= 2 && bits <= 8, ErrorCode::invalid_argument,
           "entropy_amax: codes of " + std::to_string(bits) + " bits", "more levels than bins",
           "use 2 to 8 bits");
  check_counts("entropy_amax", count);
  std::vector<std::uint64_t> h(count.begin(), count.end());
  h[0] = h[1];
  bool any = false;
  for (const std::uint64_t here : h) any = any || here > 0;
  if (!any) return 0.0F;
  const auto levels = static_cast<std::size_t>(1) << (bits - 1);
  double least = std::numeric_limits<double>::infinity();
  std::size_t last = levels;
  for (std::size_t i = levels; i <= h.size(); ++i) {
    const double d = divergence(h, i, levels);
    if (d <= least) {
      least = d;
      last = i;
    }
  }
  return bin_edge(last, width);
}

void clip_errors(const Exec&, const FakeQuantization& options, std::int64_t first,
                 Span<const float> values, Span<const std::uint32_t> amax, Span<NormLimbs> errors) {
  check_fake_quantization("clip_errors", options, first, numel(values), numel(amax));
  check_same_numel("clip_errors", "errors", errors.size(), "candidates", amax.size() * num_clips);
  std::vector<std::uint32_t> candidates(amax.size());
  std::vector<float> quantized(values.size());
  for (int c = 0; c < num_clips; ++c) {
    for (std::size_t b = 0; b < amax.size(); ++b)
      candidates[b] = clip_candidate(amax[b], first_clip + c);
    fake_quantize({}, options, first, values, candidates, quantized);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float e = values[i] - quantized[i];
      const BlockGrid& grid = options.grid;
      const std::int64_t at = first + static_cast<std::int64_t>(i);
      const std::int64_t block = at / grid.columns / grid.block_rows * grid.blocks_across() +
                                 at % grid.columns / grid.block_columns;
      grad_norm_exact_accumulate({}, {&e, 1}, errors[block * num_clips + c]);
    }
  }
}

void clip_of_errors(Span<const std::uint32_t> amax, Span<const NormLimbs> errors,
                    Span<std::uint32_t> clipped) {
  check_same_numel("clip_of_errors", "amax", amax.size(), "clipped", clipped.size());
  check_same_numel("clip_of_errors", "errors", errors.size(), "candidates",
                   amax.size() * num_clips);
  for (std::size_t b = 0; b < amax.size(); ++b) {
    bool finite = true;
    int best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int c = 0; c < num_clips; ++c) {
      const double n = grad_norm_finish(errors[b * num_clips + static_cast<std::size_t>(c)]);
      finite = finite && std::isfinite(n);
      if (n < least) {
        least = n;
        best = c;
      }
    }
    clipped[b] = finite ? clip_candidate(amax[b], first_clip + best) : amax[b];
  }
}

void smooth_scales(const Exec&, double alpha, Span<const std::uint32_t> input_amax,
                   Span<const std::uint32_t> weight_amax, Span<float> scale) {
  check_same_numel("smooth_scales", "input_amax", input_amax.size(), "weight_amax",
                   weight_amax.size());
  check_same_numel("smooth_scales", "input_amax", input_amax.size(), "scale", scale.size());
  ZP_CHECK(alpha >= 0 && alpha <= 1, ErrorCode::invalid_argument,
           "smooth_scales: alpha is " + text(alpha),
           "it divides the range between inputs and weights", "pass a number from 0 to 1");
  for (std::size_t c = 0; c < scale.size(); ++c)
    scale[c] = smooth_scale(alpha, input_amax[c], weight_amax[c]);
}

}  // namespace zeroproof::reference
