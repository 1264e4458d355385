#include "verification/bench/ranks/contract_step.hpp"

#include <algorithm>

#include "reference/cast.hpp"
#include "reference/clip.hpp"
#include "reference/grad_norm.hpp"
#include "reference/grad_scale.hpp"
#include "reference/grad_sum.hpp"
#include "reference/step_scalars.hpp"
#include "reference/update_twins.hpp"
#include "verification/bench/ranks/values.hpp"

namespace zeroproof::verification::bench {
namespace {

std::vector<float> tree_sum(std::int64_t numel, std::int64_t micro_batches) {
  constexpr std::size_t block = 65536;
  std::vector<float> sum(static_cast<std::size_t>(numel));
  std::vector<std::vector<float>> leaves(static_cast<std::size_t>(micro_batches));
  for (std::size_t begin = 0; begin < sum.size(); begin += block) {
    const std::size_t count = std::min(block, sum.size() - begin);
    for (std::size_t j = 0; j < leaves.size(); ++j) {
      leaves[j].resize(count);
      fill_leaf(static_cast<std::int64_t>(j), static_cast<std::int64_t>(begin), leaves[j]);
    }
    reference::grad_sum({}, std::vector<Span<const float>>(leaves.begin(), leaves.end()),
                        Span<float>(sum).subspan(begin, count));
  }
  return sum;
}

}  // namespace

ContractResult contract_steps(std::int64_t numel, std::int64_t micro_batches, std::int64_t steps,
                              bool clips) {
  const OptimizerHyper hyper = rank_hyper(clips);
  const auto scalars = [&](std::int64_t step) {
    return reference::step_scalars(hyper, steps_before + step, log2_loss_scale, micro_batches);
  };
  const auto size = static_cast<std::size_t>(numel);
  ContractResult result{std::vector<float>(size), std::vector<float>(size), std::vector<float>(size),
                        std::vector<bf16>(size)};
  fill_master(0, result.master);
  fill_exp_avg(0, result.exp_avg);
  fill_exp_avg_sq(0, result.exp_avg_sq);
  // The gradient is the same in every step, and so are its scale and its norm.
  std::vector<float> grad = tree_sum(numel, micro_batches);
  reference::unscale({}, scalars(1).inv_scale, grad, grad);
  NormLimbs limbs;
  reference::grad_norm_accumulate({}, grad, limbs);
  reference::grad_norm_normalise(limbs);
  reference::clip({}, reference::clip_coef(reference::grad_norm_finish(limbs), hyper.max_norm), grad, grad);
  for (std::int64_t step = 1; step <= steps; ++step) {
    reference::adamw_update({}, {}, scalars(step), grad, result.master, result.exp_avg, result.exp_avg_sq,
                            {});
  }
  reference::cast_to_bf16({}, result.master, result.param);
  return result;
}

}  // namespace zeroproof::verification::bench
