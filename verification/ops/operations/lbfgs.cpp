// Operations of L-BFGS besides dot products. Its optimizers are no operations: they are compared
// step by step.

#include "cuda/lbfgs/lbfgs.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "reference/lbfgs/lbfgs.hpp"
#include "verification/ops/families.hpp"

namespace zeroproof::verification {
namespace {

/// Evaluation i averages count[i] losses from loss i on, or as many as exist; the first one
/// averages all.
OpFunction run_mean(MeanLossFn* implementation) {
  return [implementation](OpCall& call) {
    const Span<const double> losses = call.in<double>(0);
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const std::size_t count =
          std::min<std::size_t>(call.in<std::uint32_t>(1)[i], losses.size() - i);
      const auto divisor = static_cast<std::int64_t>(call.in<std::uint64_t>(2)[i]);
      double mean = 0;
      call.get<std::uint32_t>(4)[i] =
          refused([&] { mean = implementation(losses.subspan(i, count), divisor); });
      call.get<double>(3)[i] = mean;
    }
  };
}

/// The loss of a fill, with bits beyond fp32; fills with exact sums keep their numbers.
double draw_loss(const OpCall& call, std::int64_t i) {
  const std::uint64_t index = call.shape().first_index + static_cast<std::uint64_t>(i);
  const Fill fill = call.shape().fill;
  const double loss = fill_value(fill, Content::value, index, call.words(0, i));
  if (fill == Fill::exact_sum || loss == 0 || !std::isfinite(loss)) return loss;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(loss) | call.words(0, i, 1)[0] >> 3);
}

void draw_evaluations(OpCall& call) {
  constexpr std::uint64_t end = std::uint64_t{1} << 53;
  for (std::int64_t i = 0; i < call.numel(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    const PhiloxBlock w = call.words(1, i);
    call.get<double>(0)[k] = draw_loss(call, i);
    const std::uint32_t count = w[0] % 41U;  // none is refused
    call.get<std::uint32_t>(1)[k] = i == 0 ? static_cast<std::uint32_t>(call.numel()) : count;
    const std::array<std::uint64_t, 8> divisors = {
        std::max(count, 1U), w[1] | 1U, 1, 2, (std::uint64_t{w[1]} << 21) + 1, end - 1, 0, end};
    const bool legal = i == 0 || w[3] % 4U != 0;  // the last two are refused
    call.get<std::uint64_t>(2)[k] = divisors[w[2] % (legal ? 6U : 8U)];
  }
}

}  // namespace

std::vector<Op> lbfgs_ops() {
  Op mean;
  mean.name = "mean_loss";
  mean.contract = "lbfgs.hpp";
  mean.type = "MeanLossFn";
  mean.exactness = Exactness::ordered;
  mean.operands = {input("losses", Content::given, DType::fp64),
                   input("count", Content::given, DType::u32),
                   input("divisor", Content::given, DType::u64), output("mean", DType::fp64),
                   output("refused", DType::u32)};
  mean.fills = number_fills();
  mean.largest = 4097;
  mean.generate = draw_evaluations;
  mean.reference = run_mean(reference::mean_loss);
  mean.host = run_mean(cuda::mean_loss);
  return {mean};
}

}  // namespace zeroproof::verification
