#include "common/step/phase.hpp"

namespace zeroproof {

std::string_view name(Phase phase) {
  constexpr std::array<std::string_view, 8> names = {"prepare", "reduce", "unscale", "norm",
                                                     "clip",    "update", "cast",    "gather"};
  return names[static_cast<std::size_t>(phase)];
}

std::string_view name(BufferId buffer) {
  constexpr std::array<std::string_view, num_buffer_ids> names = {"step_scalars",
                                                                  "applied_steps",
                                                                  "grad_sum",
                                                                  "unscaled_grad",
                                                                  "found_inf",
                                                                  "loss_scaler",
                                                                  "norm_limbs",
                                                                  "grad_amax",
                                                                  "grad_norm",
                                                                  "clip_coef",
                                                                  "grad",
                                                                  "exp_avg",
                                                                  "exp_avg_sq",
                                                                  "max_exp_avg_sq",
                                                                  "momentum_buffer",
                                                                  "exp_avg_scale",
                                                                  "exp_avg_sq_scale",
                                                                  "max_exp_avg_sq_scale",
                                                                  "momentum_buffer_scale",
                                                                  "master",
                                                                  "tensor_steps",
                                                                  "param_shard",
                                                                  "param_full",
                                                                  "amax",
                                                                  "amax_history",
                                                                  "param_scale",
                                                                  "param_scale_inv",
                                                                  "param_columns",
                                                                  "column_amax",
                                                                  "column_scale",
                                                                  "column_scale_inv",
                                                                  "column_shard",
                                                                  "trust_ratio",
                                                                  "orthogonal"};
  return names[static_cast<std::size_t>(buffer)];
}

bool skipped_on_overflow(Phase phase) { return phase >= Phase::norm; }

}  // namespace zeroproof
