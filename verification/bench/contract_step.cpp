#include "verification/bench/contract_step.hpp"

#include <algorithm>
#include <functional>

#include "common/base/parallel_for.hpp"
#include "reference/operations.hpp"
#include "reference/update_operations.hpp"
#include "verification/bench/values.hpp"

namespace zeroproof::verification::bench {
namespace {

/// Elements of a block, which passes through all steps in the cache.
constexpr std::int64_t block = 65536;

/// All operations except the norm are elementwise, so blocks of any size give the same bits.
void for_blocks(const ContractRun& run,
                const std::function<void(std::int64_t, std::size_t)>& body) {
  const std::int64_t numel = run.layout.padded_numel();
  parallel_for(run.threads, (numel + block - 1) / block,
               [&](std::int64_t i) { body(i * block, std::min(block, numel - i * block)); });
}

/// Leaves of a block, rounded to the gradient dtype.
std::vector<std::vector<float>> block_leaves(const ContractRun& run, std::int64_t begin,
                                             std::size_t count) {
  std::vector<std::vector<float>> leaves(std::min(run.num_leaves, run.micro_batches));
  for (std::size_t j = 0; j < leaves.size(); ++j) {
    leaves[j].resize(count);
    fill_grad(j, begin, leaves[j]);
    if (run.grad_dtype == DType::fp32) continue;
    std::vector<bf16> narrow(count);
    reference::cast_to_bf16({}, leaves[j], narrow);
    reference::widen_bf16({}, narrow, leaves[j]);
  }
  return leaves;
}

float clip_coef(const ContractRun& run, const OptimizerHyper& hyper,
                const std::vector<float>& grad) {
  NormLimbs limbs;
  for (const TensorSlot& tensor : run.layout.tensors())
    reference::grad_norm_accumulate({}, Span<const float>(grad).subspan(tensor.begin, tensor.numel),
                                    limbs);
  reference::grad_norm_normalise(limbs);
  return reference::clip_coef(reference::grad_norm_finish(limbs), hyper.max_norm);
}

}  // namespace

ContractResult contract_steps(const ContractRun& run) {
  const OptimizerHyper hyper = step_hyper(true);
  std::vector<StepScalars> scalars;
  for (std::int64_t step = 1; step <= run.steps; ++step)
    scalars.push_back(
        reference::step_scalars(hyper, steps_before + step, log2_loss_scale, run.micro_batches));
  const std::size_t size = run.layout.padded_numel();
  ContractResult result{std::vector<float>(size), std::vector<float>(size),
                        std::vector<float>(size), std::vector<bf16>(size)};
  // The gradient is the same in every step, and so are its scale and its norm.
  std::vector<float> grad(size);
  for_blocks(run, [&](std::int64_t begin, std::size_t count) {
    const std::vector<std::vector<float>> leaves = block_leaves(run, begin, count);
    std::vector<Span<const float>> all;
    for (std::int64_t j = 0; j < run.micro_batches; ++j)
      all.emplace_back(leaves[j % run.num_leaves]);
    const Span<float> sum = Span<float>(grad).subspan(begin, count);
    reference::grad_sum({}, all, sum);
    reference::unscale({}, scalars.front().inv_scale, sum, sum);
  });
  const float coef = clip_coef(run, hyper, grad);
  for_blocks(run, [&](std::int64_t begin, std::size_t count) {
    const auto part = [&]<class T>(std::vector<T>& values) {
      return Span<T>(values).subspan(begin, count);
    };
    fill_master(begin, part(result.master));
    fill_exp_avg(begin, part(result.exp_avg));
    fill_exp_avg_sq(begin, part(result.exp_avg_sq));
    reference::clip({}, coef, part(grad), part(grad));
    for (const StepScalars& one : scalars)
      reference::adamw_update({}, {}, one, part(grad), part(result.master), part(result.exp_avg),
                              part(result.exp_avg_sq), {});
    reference::cast_to_bf16({}, part(result.master), part(result.param));
  });
  return result;
}

}  // namespace zeroproof::verification::bench
