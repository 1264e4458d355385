#include "verification/interfaces/plugin/operations.hpp"

#include <algorithm>

namespace zeroproof::verification {

const std::vector<std::string>& plugin_operations() {
  static const std::vector<std::string> names = {
      "widen_bf16",        "widen_fp16",       "widen_e4m3",
      "widen_e5m2",        "unscale",          "loss_scaler_update",
      "grad_norm_p",       "clip_coef",        "clip",
      "clip_value",        "adamw_update",     "adam_update",
      "adamw_update_bf16", "adam_update_bf16", "sgd_update",
      "sgd_update_bf16",   "sgd_ema_update",   "lion_update",
      "lion_update_bf16",  "lamb_update",      "matrix_product",
      "newton_schulz",     "muon_momentum",    "muon_step_size",
      "muon_update",       "cast_to_bf16",     "cast_to_fp16",
      "cast_to_e4m3",      "cast_to_e5m2",     "stochastic_cast_to_bf16"};
  return names;
}

bool is_plugin_operation(const std::string& name) {
  const std::vector<std::string>& all = plugin_operations();
  return std::find(all.begin(), all.end(), name) != all.end();
}

}  // namespace zeroproof::verification
