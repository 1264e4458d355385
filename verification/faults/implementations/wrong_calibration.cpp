// Calibrations from counts and amaxes (R26), each with one fault. Correct parts, including
// refusals, call production.

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/step/portable_math64.hpp"
#include "cuda/host/operations.hpp"
#include "verification/faults/planted/fault_context.hpp"
#include "verification/ops/one_implementation.hpp"

namespace zeroproof::verification {
namespace {

namespace host = cuda::host;

float edge(std::size_t bin, float width) {
  return static_cast<float>(static_cast<double>(bin) * static_cast<double>(width));
}

/// The result is the upper edge of the bin.
float right_edge(Span<const std::uint64_t> count, float width, double percentile) {
  const float left = host::percentile_amax(count, width, percentile);
  const double bin = static_cast<double>(left) / static_cast<double>(width);
  return edge(static_cast<std::size_t>(std::llround(bin)) + 1, width);
}

/// The share must be exceeded; a bin that reaches it exactly does not count.
float share_exceeded(Span<const std::uint64_t> count, float width, double percentile) {
  static_cast<void>(host::percentile_amax(count, width, percentile));  // refuses invalid calls
  std::uint64_t elements = 0, up_to_here = 0;
  for (const std::uint64_t c : count) elements += c;
  const double enough = percentile / 100 * static_cast<double>(elements);
  std::size_t bin = 0;
  for (; bin + 1 < count.size(); ++bin) {
    up_to_here += count[bin];
    if (static_cast<double>(up_to_here) > enough) break;
  }
  return edge(bin, width);
}

/// A magnitude on the last edge of appended bins counts as past them.
void last_edge_outside(const Exec& exec, float width, HistogramEnd /*end*/,
                       Span<const float> values, Span<std::uint64_t> count) {
  host::histogram_count(exec, width, HistogramEnd::open, values, count);
}

/// A bin is joined with the one before it: 1 and 2, 3 and 4, and 0 with none.
void joined_from_below(const Exec& exec, int doublings, Span<std::uint64_t> count) {
  const std::vector<std::uint64_t> before(count.begin(), count.end());
  host::histogram_widen(exec, doublings, count);
  if (doublings == 0) return;
  const std::size_t bins = before.size() - histogram_extra;
  std::fill_n(count.begin(), bins, std::uint64_t{0});
  const std::uint64_t wide = std::uint64_t{1} << std::min(doublings, 32);
  for (std::size_t k = 0; k < bins; ++k) count[(k + wide - 1) / wide] += before[k];
}

/// D of R26 for the first `kept` bins.
double divergence(const std::vector<std::uint64_t>& h, std::size_t kept, std::size_t levels) {
  std::uint64_t inside = 0, all = 0;
  for (std::size_t j = 0; j < h.size(); ++j) {
    inside += j < kept ? h[j] : 0;
    all += h[j];
  }
  if (h[kept - 1] == 0 && inside != all) return INFINITY;
  std::vector<std::uint64_t> elements(levels, 0), used(levels, 0);
  for (std::size_t j = 0; j < kept; ++j) {
    elements[j * levels / kept] += h[j];
    used[j * levels / kept] += h[j] != 0 ? 1 : 0;
  }
  double s = 0;
  for (std::size_t j = 0; j < kept; ++j) {
    if (h[j] == 0) continue;
    const std::size_t level = j * levels / kept;
    const double q = static_cast<double>(elements[level]) / static_cast<double>(used[level]);
    const auto p = static_cast<double>(h[j] + (j + 1 == kept ? all - inside : 0));
    const double y = p * portable_math64::log(p / q);
    s = s + y;
  }
  const double u = s / static_cast<double>(all);
  return u + portable_math64::log(static_cast<double>(inside) / static_cast<double>(all));
}

/// Of equally near clips the first is taken.
float first_of_equals(const Exec& exec, Span<const std::uint64_t> count, float width, int bits) {
  const float last = host::entropy_amax(exec, count, width, bits);
  std::vector<std::uint64_t> h(count.begin(), count.end());
  h[0] = h[1];
  if (std::ranges::all_of(h, [](std::uint64_t c) { return c == 0; })) return last;
  const std::size_t levels = std::size_t{1} << (bits - 1);
  std::size_t best = levels;
  double least = divergence(h, levels, levels);
  for (std::size_t kept = levels + 1; kept <= h.size(); ++kept) {
    const double found = divergence(h, kept, levels);
    if (!(found < least)) continue;
    least = found;
    best = kept;
  }
  return edge(best, width);
}

/// alpha is the share of weights, not of inputs.
void alpha_of_weights(const Exec& exec, double alpha, Span<const std::uint32_t> input_amax,
                      Span<const std::uint32_t> weight_amax, Span<float> scale) {
  host::smooth_scales(exec, 1 - alpha, input_amax, weight_amax, scale);
}

/// The lowest integer of two's complement is always used.
void one_code_more(const Exec& exec, const FakeQuantization& options, std::int64_t first,
                   Span<const float> values, Span<const std::uint32_t> amax, Span<float> target) {
  FakeQuantization wide = options;
  wide.narrow = false;
  host::fake_quantize(exec, wide, first, values, amax, target);
}

}  // namespace

std::function<void(OpCall&)> wrong_calibration(std::string_view fault, std::string_view operation) {
  struct Row {
    std::string_view fault, operation;
    OpFunction calls;
  };
  static const Row rows[] = {
      {"percentile-right-edge", "percentile_amax", calls_of_percentile_amax(right_edge)},
      {"percentile-passes-an-equal", "percentile_amax", calls_of_percentile_amax(share_exceeded)},
      {"histogram-last-edge-outside", "histogram_count",
       calls_of_histogram_count(last_edge_outside)},
      {"histogram-joined-from-below", "histogram_widen",
       calls_of_histogram_widen(joined_from_below)},
      {"entropy-first-of-equals", "entropy_amax", calls_of_entropy_amax(first_of_equals)},
      {"smooth-alpha-of-weights", "smooth_scales", calls_of_smooth_scales(alpha_of_weights)},
      {"fake-quantize-one-code-more", "fake_quantize", calls_of_fake_quantize(one_code_more)}};
  for (const Row& row : rows) {
    if (row.fault == fault && row.operation == operation) return row.calls;
  }
  return {};
}

}  // namespace zeroproof::verification
