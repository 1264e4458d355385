#include "verification/ops/operations/rounding_shares.hpp"

#include <array>
#include <bit>
#include <cmath>

#include "common/base/float_formats.hpp"
#include "verification/ops/op_call.hpp"
#include "verification/report/format.hpp"

namespace zeroproof::verification {
namespace {

constexpr std::size_t num_bins = 16;
constexpr double most_of_all = 5, most_of_one = 6;  // standard deviations
constexpr double enough = 100;  // of the variance, for the normal distribution at 6 of them

struct Bin {
  std::int64_t values = 0, away = 0;
  double expected = 0, variance = 0;  ///< of `away`

  double deviation() const { return (static_cast<double>(away) - expected) / std::sqrt(variance); }
  void add(const Bin& other) {
    values += other.values;
    away += other.away;
    expected += other.expected;
    variance += other.variance;
  }
};

class RoundingShares final : public CallStatistic {
 public:
  void add(const OpCall& pristine, const OpCall& candidate) override {
    const Span<const float> source = pristine.in<float>(0);
    const Span<const bf16> target = candidate.in<bf16>(1);
    std::array<Bin, num_bins> here;
    for (std::size_t i = 0; i < source.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(source[i]);
      const std::uint32_t below = bits & 0xFFFFU;
      if (!std::isfinite(source[i]) || below == 0) continue;
      const std::uint32_t near = bits >> 16U, got = target[i].bits;
      if (got != near && got != near + 1 && problem_.empty()) {
        problem_ = fmt::format("target[{}] is {:#06x}, and the neighbours are {:#06x} and {:#06x}",
                               i, got, near, near + 1);
      }
      const double share = below / 65536.0;
      Bin& bin = here[below >> 12U];
      ++bin.values;
      bin.away += target[i].bits == (bits >> 16U) + 1 ? 1 : 0;
      bin.expected += share;
      bin.variance += share * (1 - share);
    }
    for (std::size_t k = 0; k < num_bins; ++k) {
      bins_[k].add(here[k]);
      if (here[k].variance >= enough) judge(here[k], k, most_of_one, "in a call of ", problem_);
    }
  }

  std::string problem() const override {
    std::string problem = problem_;
    for (std::size_t k = 0; k < num_bins; ++k) {
      if (bins_[k].variance >= enough) judge(bins_[k], k, most_of_all, "of ", problem);
    }
    return problem;
  }

 private:
  /// Keeps the first problem.
  static void judge(const Bin& bin, std::size_t k, double most, const char* of,
                    std::string& problem) {
    if (std::fabs(bin.deviation()) <= most || !problem.empty()) return;
    problem = fmt::format(
        "{}{} values between {} and {} of the way to the neighbour away from zero, {:.4g} % were "
        "rounded to it and {:.4g} % have to be: {:.1f} standard deviations",
        of, bin.values, fmt::format("{}/16", k), fmt::format("{}/16", k + 1),
        100 * static_cast<double>(bin.away) / static_cast<double>(bin.values),
        100 * bin.expected / static_cast<double>(bin.values), bin.deviation());
  }

  std::array<Bin, num_bins> bins_;
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
  return {value, apart * (1 - 0x1p-17L), true};  // a third bf16 number is further away
}

std::unique_ptr<CallStatistic> rounding_shares() { return std::make_unique<RoundingShares>(); }

}  // namespace zeroproof::verification
