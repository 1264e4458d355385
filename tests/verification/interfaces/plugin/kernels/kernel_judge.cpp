#include "tests/verification/interfaces/plugin/kernels/kernel_judge.hpp"

#include <cstdlib>

#include "tests/support/paths.hpp"
#include "verification/interfaces/plugin/plugin_candidate.hpp"

namespace zeroproof::tests {

using namespace verification;

std::shared_ptr<const OpCandidate> kernel(std::string_view library, std::string_view kind) {
  ::setenv("ZP_KERNEL", std::string(kind).c_str(), 1);  // for the new process
  const std::string path = build_folder() + "/plugins/" + std::string(library) + ".so";
  auto plugin =
      std::make_shared<Plugin>(path, PluginLimits{}, build_folder() + "/zeroproof-plugin");
  ::unsetenv("ZP_KERNEL");
  return plugin_candidate(std::move(plugin));
}

std::string described(const Result& result) {
  std::string all = result.reason;
  if (!result.divergence) return all;
  const Divergence& d = *result.divergence;
  return all + "; " + d.call + "; " + d.hint + "; " + d.order;
}

const std::vector<RightKernel>& right_kernels() {
  static const std::vector<std::string_view> passes = {
      "unscale",      "clip",         "clip_value",   "clip_coef",    "grad_norm_p",
      "cast_to_bf16", "cast_to_fp16", "cast_to_e4m3", "cast_to_e5m2", "widen_bf16",
      "widen_fp16",   "widen_e4m3",   "widen_e5m2"};
  static const std::vector<std::string_view> both = {"adamw_update", "adam_update"};
  static const std::vector<std::string_view> one_buffer = {"sgd_update", "sgd_ema_update",
                                                           "lion_update"};
  static const std::vector<RightKernel> rows = {
      {"orders_adam", "contracted", false, both},
      {"orders_adam", "moves", false, both},
      {"orders_adam", "moments_corrected", false, both},
      {"orders_adam", "corrections_merged", false, both},
      {"orders_adam", "rate_first", false, both},
      {"orders_adam", "decay_first", false, {"adamw_update"}},
      {"orders_adam", "decay_as_factor", false, {"adamw_update"}},
      {"orders_adam", "decay_last", false, {"adamw_update"}},
      {"orders_adam", "decay_in_step", false, {"adamw_update"}},
      {"orders_adam", "in_double", false, both},
      {"orders_adam", "backwards", false, both},
      {"orders_sgd_lion", "contracted", false, one_buffer},
      {"orders_sgd_lion", "moves", false, {"sgd_ema_update", "lion_update"}},
      {"orders_sgd_lion", "in_double", false, one_buffer},
      {"same_bits", "downwards", true, passes},
      {"same_bits", "strided", true, passes},
      {"same_bits", "blocks", true, passes},
      {"same_bits", "threads", true, passes},
      {"same_bits", "searched", true, passes}};
  return rows;
}

}  // namespace zeroproof::tests
