#include "verification/tools/trace/phase_facts.hpp"

#include <algorithm>

#include "common/step/param_scaling.hpp"
#include "common/step/state_buffers.hpp"

namespace zeroproof::verification {
namespace {

std::vector<std::string> update_formulas(UpdateRule rule) {
  const char* const average = "exp_avg' = beta1 * exp_avg + one_minus_beta1 * g";
  const char* const square = "exp_avg_sq' = beta2 * exp_avg_sq + one_minus_beta2 * (g * g)";
  const char* const denominator = "d = sqrt(exp_avg_sq') / sqrt_bias_correction2 + eps";
  switch (rule) {
    case UpdateRule::adamw:
      return {average, square, denominator,
              "master' = master - (step_size * (exp_avg' / d) + lr_weight_decay * master)"};
    case UpdateRule::adam:
      return {"g := g + weight_decay * master", average, square, denominator,
              "master' = master - step_size * (exp_avg' / d)"};
    case UpdateRule::sgd:
      return {
          "g := g + weight_decay * master",
          "momentum_buffer' = is_first ? g : momentum * momentum_buffer + one_minus_dampening * g",
          "master' = master - lr * momentum_buffer'"};
    case UpdateRule::sgd_ema:
      return {"g := g + weight_decay * master", average, "master' = master - lr * exp_avg'"};
    case UpdateRule::lion:
      return {"c = beta1 * exp_avg + one_minus_beta1 * g",
              "master' = master - (lr * sign(c) + lr_weight_decay * master)",
              "exp_avg' = beta2 * exp_avg + one_minus_beta2 * g"};
    case UpdateRule::lamb:
      return {average,
              square,
              denominator,
              "u = step_size * (exp_avg' / d) + lr_weight_decay * master",
              "trust_ratio = lr * norm(master) / norm(u), over the whole tensor; 1 if either is 0",
              "master' = master - trust_ratio * u"};
    case UpdateRule::muon:
      return {"of a matrix: exp_avg' = momentum * exp_avg + one_minus_dampening * g",
              "e = one_minus_dampening * g + momentum * exp_avg' with nesterov, else exp_avg'",
              "orthogonal = Newton-Schulz of e, of the whole matrix or of each of its parts",
              "master' = master - (step_size * orthogonal + lr_weight_decay * master)",
              "of another tensor: as adamw"};
  }
  return {};
}

std::vector<BufferId> inputs_of(Phase phase) {
  using enum BufferId;
  switch (phase) {
    case Phase::prepare:
      return {applied_steps, loss_scaler};
    case Phase::reduce:
      return {param_shard};  // of stage 3, which gathers it for every visit
    case Phase::unscale:
      return {grad_sum, step_scalars, loss_scaler};
    case Phase::norm:
      return {unscaled_grad};
    case Phase::clip:
      return {unscaled_grad, norm_limbs, grad_norm};
    case Phase::update:
      return {grad, step_scalars, applied_steps};  // and all state, in is_input()
    case Phase::cast:
      return {master, param_shard, amax_history, param_scale, param_scale_inv};
    case Phase::gather:
      return {param_shard, param_full};
  }
  return {};
}

}  // namespace

std::vector<std::string> rules_of(Phase phase, UpdateRule rule, DType param_dtype) {
  switch (phase) {
    case Phase::prepare:
      return {"R5"};
    case Phase::reduce:
      return {"R11"};
    case Phase::unscale:
      return {"R6", "R14"};
    case Phase::norm:
      return {"R12"};
    case Phase::clip:
      return {"R6", "R12"};
    case Phase::update:
      if (traits_of(rule).matrices) return {"R6", "R27", "R28"};
      return {"R6"};
    case Phase::gather:
      return {"R6"};
    case Phase::cast:
      return has_scales(param_dtype) ? std::vector<std::string>{"R22", "R24"}
                                     : std::vector<std::string>{"R8"};
  }
  return {};
}

std::vector<std::string> formulas_of(Phase phase, UpdateRule rule, DType param_dtype) {
  switch (phase) {
    case Phase::prepare:
      return {"t = applied_steps + 1", "inv_scale = 1 / (S * M)",
              "sqrt_bias_correction2 = sqrt(1 - pow(beta2, t))",
              "step_size = lr / (1 - pow(beta1, t))"};
    case Phase::reduce:
      return {"node (l,k) = node (l-1,2k) + node (l-1,2k+1)",
              "grad_sum = the node that covers all M leaves"};
    case Phase::unscale:
      return {"unscaled_grad = grad_sum * inv_scale",
              "found_inf = OR of (unscaled_grad is not finite)"};
    case Phase::norm:
      return {"chunk value = sum of unscaled_grad^2 over 1024 elements, in fp64",
              "grad_norm = sqrt(sum of the chunk values, added as integers)"};
    case Phase::clip:
      return {"clip_coef = fp32(min(1, max_norm / (grad_norm + 1e-6)))",
              "grad = unscaled_grad * clip_coef"};
    case Phase::update:
      return update_formulas(rule);
    case Phase::cast:
      if (has_scales(param_dtype)) {
        return {"amax = the largest magnitude of a block's masters, over all ranks",
                "param_scale = the recipe's scale for amax, or under delayed for its history",
                "param_scale_inv = 1 / param_scale",
                "param_shard = master * param_scale, rounded, saturating"};
      }
      return {"param_shard = master, rounded to nearest, ties to even"};
    case Phase::gather:
      return {"param_full = the bytes of every param_shard"};
  }
  return {};
}

bool is_input(Phase phase, BufferId id) {
  if (phase == Phase::update && (is_state(id) || is_state_scale(id))) return true;
  const std::vector<BufferId> inputs = inputs_of(phase);
  return std::find(inputs.begin(), inputs.end(), id) != inputs.end();
}

}  // namespace zeroproof::verification
