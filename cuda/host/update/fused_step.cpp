#include "cuda/host/fused_step.hpp"

#include <array>
#include <atomic>
#include <cmath>
#include <string>

#include "common/step/state_buffers.hpp"
#include "cuda/host/base/check.hpp"
#include "cuda/host/base/stream_copy.hpp"
#include "cuda/host/gradients/limb_deposit.hpp"
#include "cuda/host/gradients/norm_forms.hpp"
#include "cuda/host/update/run_update.hpp"

namespace zeroproof::cuda::host {
namespace {

void check_state(const FusedOptions& options, const FusedState& state) {
  OptimizerHyper hyper;
  hyper.rule = options.rule;
  hyper.amsgrad = options.amsgrad;
  hyper.momentum = options.momentum ? 1 : 0;
  constexpr PerSlot<const char*> wanted_by = {
      {"a rule with a moving average", "a rule with a second moment", "amsgrad", "momentum"}};
  for (const StateSlot slot : all_state_slots) {
    require_optional_numel("fused_update", state.master.size(), name(slot),
                           state.slots[slot].size(), keeps(hyper, slot), wanted_by[slot]);
  }
  const bool momentum = keeps(hyper, StateSlot::momentum_buffer);
  ZP_CHECK(momentum || !options.nesterov, ErrorCode::invalid_argument,
           "fused_update: nesterov is on without momentum", "it uses the momentum buffer",
           "turn momentum on or nesterov off");
}

ParamKind kind_of(const FusedOptions& options, DType dtype) {
  ZP_CHECK(!options.draw || dtype == DType::bf16, ErrorCode::invalid_argument,
           "fused_update: stochastic rounding to " + std::string(name(dtype)),
           "only bf16 has such a cast", "use bf16 parameters, or round to nearest");
  if (!options.casts) return ParamKind::none;
  if (options.draw) return ParamKind::stochastic_bf16;
  if (dtype == DType::fp32) return ParamKind::fp32;
  if (dtype == DType::bf16) return ParamKind::bf16;
  ZP_CHECK(dtype == DType::fp16, ErrorCode::invalid_argument,
           "fused_update: param is " + std::string(name(dtype)), "there is no cast to it",
           "use fp32, bf16 or fp16 parameters");
  return ParamKind::fp16;
}

GradientChain chain_of(const FusedOptions& options, float inv_scale, float clip_coef) {
  GradientChain chain{.unscale = inv_scale, .clip_coef = clip_coef};
  if (options.maximize) chain.sign_flip = 0x80000000U;
  if (!options.clip_value) return chain;
  ZP_CHECK(std::isfinite(*options.clip_value) && *options.clip_value > 0,
           ErrorCode::invalid_argument,
           "fused_update: clip_value is " + std::to_string(*options.clip_value),
           "every element is clipped to [-clip_value, clip_value]",
           "use a positive finite number, or none");
  chain.clip_limit = *options.clip_value;
  return chain;
}

Draw draw_of(const std::optional<RoundingDraw>& draw) {
  if (!draw) return {};
  return {draw->seed, static_cast<std::uint32_t>(draw->step), draw->first_index};
}

/// Adds the chunk sums of chunks(begin, end, sums) of every block to the limbs. Returns whether
/// there is a value that is not finite.
template <class Chunks>
bool deposit_chunks(const Exec& exec, std::int64_t numel, NormLimbs& limbs, const Chunks& chunks) {
  std::atomic<std::uint32_t> found{0};
  parallel_sum(
      exec, numel, limbs,
      [&](std::int64_t begin, std::int64_t end, NormLimbs& mine) {
        std::array<double, block_numel / norm_chunk_numel> sums;
        if (chunks(begin, end, sums.data()) != 0) found = 1;
        const std::int64_t count = (end - begin + norm_chunk_numel - 1) / norm_chunk_numel;
        for (std::int64_t c = 0; c < count; ++c) deposit(sums[c], mine);
      },
      merge);
  return found != 0;
}

}  // namespace

bool fused_finite_and_norm(const Exec& exec, float inv_scale, Span<const float> grad_sum,
                           NormLimbs& limbs) {
  return fused_finite_and_norm(exec, inv_scale, GradStretch{grad_sum.data(), DType::fp32},
                               numel(grad_sum), limbs);
}

bool fused_finite_and_norm(const Exec& exec, float inv_scale, const GradStretch& grad_sum,
                           std::int64_t numel, NormLimbs& limbs) {
  const SimdKernels& kernels = simd_kernels(exec.isa);
  return deposit_chunks(exec, numel, limbs,
                        [&](std::int64_t begin, std::int64_t end, double* sums) {
                          return kernels.unscale_chunk_sums(
                              inv_scale, from_element(grad_sum, begin), end - begin, sums);
                        });
}

bool fused_fold_finite_and_norm(const Exec& exec, float inv_scale, const FoldPlan& plan,
                                Span<const GradStretch> operands, Span<float> sum, bool streamed,
                                NormLimbs& limbs) {
  require_same_numel("fused_fold_finite_and_norm", "nodes", plan.num_nodes(), "operands",
                     operands.size());
  const Fold fold = plan.over(operands);
  const SimdKernels& kernels = simd_kernels(exec.isa);
  return deposit_chunks(exec, numel(sum), limbs,
                        [&](std::int64_t begin, std::int64_t end, double* sums) {
                          return kernels.fold_chunk_sums(inv_scale, fold, begin, sum.data() + begin,
                                                         end - begin, streamed, sums);
                        });
}

bool fused_finite(const Exec& exec, float inv_scale, Span<const float> grad_sum) {
  const SimdKernels& kernels = simd_kernels(exec.isa);
  std::atomic<std::uint32_t> found{0};
  parallel_blocks(exec, numel(grad_sum), [&](std::int64_t begin, std::int64_t end) {
    if (kernels.any_not_finite(inv_scale, grad_sum.data() + begin, end - begin) != 0) found = 1;
  });
  return found != 0;
}

void fused_norm_exact(const Exec& exec, float inv_scale, Span<const float> grad_sum,
                      NormLimbs& limbs) {
  accumulate_exact(exec, ExactTerm::square, inv_scale, grad_sum, limbs);
}

void fused_norm_abs(const Exec& exec, float inv_scale, Span<const float> grad_sum,
                    NormLimbs& limbs) {
  accumulate_exact(exec, ExactTerm::magnitude, inv_scale, grad_sum, limbs);
}

void fused_norm_max(const Exec& exec, float inv_scale, Span<const float> grad_sum,
                    std::uint32_t& amax) {
  accumulate_max(exec, inv_scale, grad_sum, amax);
}

FusedOptions fused_options(const OptimizerHyper& hyper) {
  FusedOptions options;
  options.rule = hyper.rule;
  options.amsgrad = hyper.amsgrad;
  options.maximize = hyper.maximize;
  options.momentum = keeps(hyper, StateSlot::momentum_buffer);
  options.nesterov = hyper.nesterov && !traits_of(hyper.rule).matrices;  // there, of matrices only
  if (hyper.clip_value) options.clip_value = static_cast<float>(*hyper.clip_value);
  return options;
}

void fused_lamb_norms(const Exec& exec, const FusedOptions& options, const StepScalars& scalars,
                      float clip_coef, const GradStretch& grad_sum, const FusedState& state,
                      TrustNorms& norms) {
  const Span<float> exp_avg = state.slots[StateSlot::exp_avg];
  const Span<float> exp_avg_sq = state.slots[StateSlot::exp_avg_sq];
  require_same_numel("fused_lamb_norms", "master", state.master.size(), "exp_avg", exp_avg.size());
  require_same_numel("fused_lamb_norms", "master", state.master.size(), "exp_avg_sq",
                     exp_avg_sq.size());
  run_lamb_norms(exec, chain_of(options, scalars.inv_scale, clip_coef), scalars, grad_sum,
                 state.master, exp_avg, exp_avg_sq, norms);
}

void fused_update(const Exec& exec, const FusedOptions& options, const StepScalars& scalars,
                  float clip_coef, Span<const float> grad_sum, const FusedState& state,
                  const TensorView& param) {
  require_same_numel("fused_update", "grad_sum", grad_sum.size(), "master", state.master.size());
  fused_update(exec, options, scalars, clip_coef, GradStretch{grad_sum.data(), DType::fp32}, state,
               param);
}

void fused_update(const Exec& exec, const FusedOptions& options, const StepScalars& scalars,
                  float clip_coef, const GradStretch& grad_sum, const FusedState& state,
                  const TensorView& param) {
  check_state(options, state);
  require_same_numel("fused_update", "master", options.casts ? state.master.size() : 0, "param",
                     static_cast<std::size_t>(param.numel));
  const ParamKind kind = kind_of(options, param.dtype);
  const GradientChain chain = chain_of(options, scalars.inv_scale, clip_coef);
  const UpdateForm form{options.rule, options.amsgrad, options.momentum, options.nesterov,
                        options.trust_ratio};
  const UpdateBuffers buffers{nullptr, state.master.data(),
                              per_slot([&](StateSlot slot) { return state.slots[slot].data(); })};
  const Draw draw = draw_of(options.draw);
  const SimdKernels& kernels = simd_kernels(exec.isa);
  // Parameters of a small shard are gathered while they are still cached; those of a large one
  // would only evict state that is about to be read.
  const bool stream = options.stream.value_or(streams_past_caches(param.num_bytes()));
  parallel_blocks(exec, numel(state.master), [&](std::int64_t begin, std::int64_t end) {
    auto* const params = static_cast<std::byte*>(param.data);  // null without a cast
    const ParamTarget target{
        kind == ParamKind::none ? params : params + begin * num_bytes(param.dtype),
        kind,
        stream,
        {draw.seed, draw.step, draw.index + static_cast<std::uint64_t>(begin)}};
    kernels.fused_update(form, chain, scalars, from_element(grad_sum, begin),
                         from_element(buffers, begin), target, end - begin);
  });
}

}  // namespace zeroproof::cuda::host
