#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <vector>

#include "common/step/portable_math64.hpp"
#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_units.hpp"
#include "cuda/host/formats/calibration_checks.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda::host {
namespace {

constexpr double beyond_all_divergences = std::numeric_limits<double>::infinity();

float left_edge(std::int64_t bin, float width) {
  return static_cast<float>(static_cast<double>(bin) * width);
}

std::uint64_t require_counts(const char* op, Span<const std::uint64_t> count, float width) {
  require_bins(op, numel(count), width);
  std::uint64_t sum = 0;
  for (const std::uint64_t c : count)
    sum = c < too_many_counted && sum < too_many_counted ? sum + c : too_many_counted;
  require_counted(op, sum);
  return sum;
}

/// The counts as the entropy reads them, with the sums of the first k of them.
struct EntropyBins {
  std::vector<std::uint64_t> here, before, used_before;

  explicit EntropyBins(Span<const std::uint64_t> count) : here(count.begin(), count.end()) {
    here[0] = here[1];
    before.assign(here.size() + 1, 0);
    used_before.assign(here.size() + 1, 0);
    for (std::size_t k = 0; k < here.size(); ++k) {
      before[k + 1] = before[k] + here[k];
      used_before[k + 1] = used_before[k] + (here[k] != 0U ? 1U : 0U);
    }
  }

  std::uint64_t all() const { return before.back(); }

  /// R26: D of the first `kept` bins, level after level.
  double divergence(std::size_t kept, std::size_t levels) const {
    const std::uint64_t inside = before[kept], outside = all() - inside;
    if (outside != 0U && here[kept - 1] == 0U) return beyond_all_divergences;
    double sum = 0;
    std::size_t from = 0;
    for (std::size_t level = 0; level < levels; ++level) {
      const std::size_t to =
          ((level + 1) * kept + levels - 1) / levels;  // the first bin of the next one
      const std::uint64_t elements = before[to] - before[from];
      if (elements != 0U) {
        const double share = static_cast<double>(elements) /
                             static_cast<double>(used_before[to] - used_before[from]);
        for (std::size_t j = from; j < to; ++j) {
          if (here[j] == 0U) continue;
          const auto p = static_cast<double>(here[j] + (j + 1 == kept ? outside : 0U));
          const double ratio = p / share;
          if (ratio != 1) sum += p * portable_math64::log(ratio);  // the logarithm of 1 is +0
        }
      }
      from = to;
    }
    const auto total = static_cast<double>(all());
    return sum / total + portable_math64::log(static_cast<double>(inside) / total);
  }
};

std::uint32_t clipped_amax(std::uint32_t amax, int step) {
  if (amax > 0x7F800000U) return amax;
  const double factor = static_cast<double>(step) / 32;
  return std::bit_cast<std::uint32_t>(static_cast<float>(factor * std::bit_cast<float>(amax)));
}

/// x^exponent for x > 0; 1 and 0 need no logarithm.
double power(double x, double exponent) {
  if (exponent == 0) return 1;
  return exponent == 1 ? x : portable_math64::exp(exponent * portable_math64::log(x));
}

}  // namespace

float percentile_amax(Span<const std::uint64_t> count, float width, double percentile) {
  require_percentile(percentile);
  const std::uint64_t elements = require_counts("percentile_amax", count, width);
  const double enough = percentile / 100 * static_cast<double>(elements);
  std::uint64_t left = elements;  // from the end: the first bin with too few elements after it
  std::int64_t bin = numel(count) - 1;
  while (bin > 0) {
    left -= count[bin];
    if (static_cast<double>(left) < enough) break;
    --bin;
  }
  return left_edge(bin, width);
}

float entropy_amax(const Exec& exec, Span<const std::uint64_t> count, float width, int bits) {
  require_entropy_bits(bits);
  require_counts("entropy_amax", count, width);
  const EntropyBins bins(count);
  if (bins.all() == 0U) return 0;
  const std::size_t levels = std::size_t{1} << (bits - 1);
  std::vector<double> found(count.size() - levels + 1);
  parallel_units(exec, numel(Span<const double>(found)), numel(count),
                 [&](std::int64_t from, std::int64_t to) {
                   for (std::int64_t c = from; c < to; ++c) {
                     const auto at = static_cast<std::size_t>(c);
                     found[at] = bins.divergence(levels + at, levels);
                   }
                 });
  std::size_t best = found.size() - 1;  // from the last one on: another must be less
  for (std::size_t c = best; c-- > 0;) {
    if (found[c] < found[best]) best = c;
  }
  return left_edge(static_cast<std::int64_t>(levels + best), width);
}

void clip_errors(const Exec& exec, const FakeQuantization& options, std::int64_t first,
                 Span<const float> values, Span<const std::uint32_t> amax, Span<NormLimbs> errors) {
  require_fake_quantization("clip_errors", options, first, values.size(), amax.size());
  require_clip_errors("clip_errors", amax.size(), errors.size());
  const Exec alone{.num_threads = 1, .isa = exec.isa};
  // A candidate is one unit of work: no other thread writes the limbs of its errors.
  parallel_units(exec, num_clips, block_numel, [&](std::int64_t from, std::int64_t to) {
    std::vector<std::uint32_t> candidate(amax.size());
    std::array<float, 1024> error;
    constexpr auto tile = static_cast<std::int64_t>(std::tuple_size_v<decltype(error)>);
    for (std::int64_t c = from; c < to; ++c) {
      std::transform(amax.begin(), amax.end(), candidate.begin(), [&](std::uint32_t a) {
        return clipped_amax(a, first_clip + static_cast<int>(c));
      });
      for (std::int64_t begin = 0; begin < numel(values); begin += tile) {
        const std::int64_t end = std::min(begin + tile, numel(values));
        const auto count = static_cast<std::size_t>(end - begin);
        const Span<const float> x = values.subspan(begin, count);
        fake_quantize(alone, options, first + begin, x, candidate,
                      Span<float>(error.data(), count));
        for (std::size_t i = 0; i < count; ++i) error[i] = x[i] - error[i];
        for_each_stretch(
            options.grid, first, begin, end,
            [&](std::size_t block, std::int64_t left, std::int64_t right) {
              // Carries before adding, so that no number of ranges overflows a limb.
              grad_norm_exact_accumulate(
                  alone, {error.data() + (left - begin), static_cast<std::size_t>(right - left)},
                  errors[block * num_clips + static_cast<std::size_t>(c)]);
            });
      }
    }
  });
}

void clip_of_errors(Span<const std::uint32_t> amax, Span<const NormLimbs> errors,
                    Span<std::uint32_t> clipped) {
  require_same_numel("clip_of_errors", "amax", amax.size(), "clipped", clipped.size());
  require_clip_errors("clip_of_errors", amax.size(), errors.size());
  for (std::size_t block = 0; block < amax.size(); ++block) {
    std::array<double, num_clips> norms;
    for (std::size_t c = 0; c < norms.size(); ++c)
      norms[c] = grad_norm_finish(errors[block * num_clips + c]);
    const bool finite = std::all_of(norms.begin(), norms.end(), [](double n) {
      return n <= std::numeric_limits<double>::max();
    });
    const auto best = std::min_element(norms.begin(), norms.end()) - norms.begin();
    clipped[block] =
        finite ? clipped_amax(amax[block], first_clip + static_cast<int>(best)) : amax[block];
  }
}

void smooth_scales(const Exec& exec, double alpha, Span<const std::uint32_t> input_amax,
                   Span<const std::uint32_t> weight_amax, Span<float> scale) {
  require_same_numel("smooth_scales", "input_amax", input_amax.size(), "weight_amax",
                     weight_amax.size());
  require_same_numel("smooth_scales", "input_amax", input_amax.size(), "scale", scale.size());
  require_alpha(alpha);
  constexpr std::uint32_t infinite = 0x7F800000U;
  constexpr float least = 1e-4F, most = 1e4F;
  parallel_blocks(exec, numel(scale), [&](std::int64_t begin, std::int64_t end) {
    for (auto c = static_cast<std::size_t>(begin); c < static_cast<std::size_t>(end); ++c) {
      const std::uint32_t input = input_amax[c], weight = weight_amax[c];
      const bool unused = input <= 0x30000000U;  // 2^-31
      if (unused || input >= infinite || weight >= infinite) {
        scale[c] = 1;
        continue;
      }
      const double below = power(std::bit_cast<float>(input), alpha);
      const double above = weight != 0U ? power(std::bit_cast<float>(weight), 1 - alpha)
                           : alpha == 1 ? 1
                                        : 0;
      const auto s = static_cast<float>(above / below);
      scale[c] = s < least ? least : s > most ? most : s;
    }
  });
}

}  // namespace zeroproof::cuda::host
