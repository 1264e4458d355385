#include "verification/ops/operations/rounding_shares.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "common/base/float_formats.hpp"
#include "verification/ops/op_call.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t num_bins = 16;
constexpr double most = 6;      // standard deviations
constexpr double enough = 100;  // of the variance: the distribution is normal at 6 of them

/// Values of a call, and how many of them had one of two results.
struct Sum {
  std::int64_t values = 0, taken = 0;
  double expected = 0, variance = 0;  ///< of `taken`

  void add(bool took, double probability) {
    ++values;
    taken += took ? 1 : 0;
    expected += probability;
    variance += probability * (1 - probability);
  }
};

class RoundingShares final : public CallStatistic {
 public:
  void add(const OpCall& pristine, const OpCall& candidate) override {
    const Span<const float> source = pristine.in<float>(0);
    const Span<const bf16> target = candidate.in<bf16>(1);
    std::array<Sum, num_bins> bins;
    Sum away, nearer;
    for (std::size_t i = 0; i < source.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(source[i]);
      const std::uint32_t below = bits & 0xFFFFU;
      if (!std::isfinite(source[i]) || below == 0) continue;
      const std::uint32_t near = bits >> 16U, got = target[i].bits;
      if (got != near && got != near + 1) {
        note(fmt::format("target[{}] is {:#06x}, and its neighbours are {:#06x} and {:#06x}", i,
                         got, near, near + 1));
      }
      const double share = below / 65536.0;
      const bool took_away = got == near + 1;
      bins[below >> 12U].add(took_away, share);
      away.add(took_away, share);
      nearer.add(took_away == (share >= 0.5), std::max(share, 1 - share));
    }
    values_ += away.values;
    judged_ = judged_ || away.variance >= enough;
    judge(away, "were rounded away from zero");
    judge(nearer, "were rounded to the nearer neighbour");
    for (std::size_t k = 0; k < num_bins; ++k) {
      judge(bins[k], fmt::format("between {0}/16 and {1}/16 of the way to the neighbour away from "
                                 "zero were rounded to it",
                                 k, k + 1));
    }
  }

  std::string problem() const override {
    if (!problem_.empty() || judged_ || values_ == 0) return problem_;
    return fmt::format(
        "{} values are too few to judge how often each neighbour is taken; a call needs about "
        "1,000",
        values_);
  }

 private:
  /// Keeps the first problem.
  void note(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }

  void judge(const Sum& sum, const std::string& what) {
    if (sum.variance < enough) return;
    const double off = (static_cast<double>(sum.taken) - sum.expected) / std::sqrt(sum.variance);
    if (std::fabs(off) <= most) return;
    const auto share = [&](double count) { return 100 * count / static_cast<double>(sum.values); };
    note(fmt::format(
        "of {} values in a call {:.3g} % {}, and {:.3g} % have to be: {:.1f} standard "
        "deviations",
        sum.values, share(static_cast<double>(sum.taken)), what, share(sum.expected), off));
  }

  std::int64_t values_ = 0;
  bool judged_ = false;
  std::string problem_;
};

}  // namespace

ElementBound neighbours_in_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value) || (bits & 0xFFFFU) == 0) return {value, 0, true};
  const float near = std::bit_cast<float>(bits & 0xFFFF0000U);
  const float away = std::bit_cast<float>((bits & 0xFFFF0000U) + 0x10000U);
  if (std::isinf(away)) {
    const auto infinity = away > 0 ? ResultClasses::infinity : ResultClasses::minus_infinity;
    return {.classes = ResultClasses::number | infinity};
  }
  const long double apart = std::fabs(static_cast<long double>(away) - near);
  return {value, apart * (1 - 0x1p-17L), true};
}

std::unique_ptr<CallStatistic> rounding_shares() { return std::make_unique<RoundingShares>(); }

}  // namespace zeroproof::verification
