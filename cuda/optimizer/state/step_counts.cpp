#include "cuda/optimizer/state/step_counts.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "common/comm/agreement.hpp"
#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/step_ranks.hpp"

namespace zeroproof::cuda {

std::int64_t step_divisor(const OptimizerSetup& setup, const GradSource& leaves) {
  if (setup.loss_reduction == LossReduction::mean) return setup.micro_batches;
  std::uint64_t tokens = 0;
  for (const std::int64_t j : own_micro_batches(setup)) {
    const std::int64_t count = leaves.num_tokens(j);
    constexpr std::int64_t limit = std::int64_t{1}
                                   << 53;  // R5; sums of 1024 such counts cannot wrap
    ZP_CHECK(
        count >= 0 && count < limit - static_cast<std::int64_t>(tokens),
        ErrorCode::invalid_argument,
        "micro-batch " + std::to_string(j) + " has " + std::to_string(count) + " tokens",
        "the gradient is divided by the tokens of all of them, and fp64 must represent that number",
        "use counts of at least 0 with a sum below 2^53");
    tokens += static_cast<std::uint64_t>(count);
  }
  if (own_data_rank(setup) % setup.cp != 0)
    tokens = 0;  // CP rank 0 has counted the same micro-batches
  all_reduce_data(setup, {&tokens, 1}, IntegerReduce::sum);
  constexpr std::uint64_t largest =
      std::numeric_limits<std::int64_t>::max();  // step_scalars rejects values above 2^53
  return static_cast<std::int64_t>(std::clamp<std::uint64_t>(tokens, 1, largest));
}

void find_gradients(const OptimizerSetup& setup, const GradSource& leaves,
                    Span<std::uint64_t> has_grad) {
  std::ranges::fill(has_grad, std::uint64_t{0});
  const auto tensors = static_cast<std::int64_t>(setup.layout->tensors().size());
  for (const std::int64_t j : own_micro_batches(setup)) {
    for (std::int64_t i = 0; i < tensors;
         ++i) {  // one gradient is enough: later micro-batches are not queried
      std::uint64_t& word = has_grad[static_cast<std::size_t>(i) / 64];
      const std::uint64_t bit = std::uint64_t{1} << (i % 64);
      if ((word & bit) == 0 && leaves.has_grad(j, i)) word |= bit;
    }
  }
  all_reduce_step(setup, has_grad, IntegerReduce::bitwise_or);
}

void require_same_scalars(const OptimizerSetup& setup, Span<const StepScalars> scalars) {
  if (data_ranks(setup) * tp_ranks(setup) == 1) return;
  // TP ranks are neighbours, instances are farthest apart: in this order ranks have their numbers
  // in the step.
  require_agreement({setup.tp, setup.comm, setup.replicas}, std::as_bytes(scalars),
                    "the step scalars",
                    "ranks with different scalars would diverge without an error",
                    "start every rank with the same settings, state and step number");
}

}  // namespace zeroproof::cuda
