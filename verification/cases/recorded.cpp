#include "verification/cases/recorded.hpp"

#include "common/base/error.hpp"
#include "verification/model/recorded.hpp"

namespace zeroproof::verification {

RunConfig recorded_defaults(const std::string& path) {
  ZP_CHECK(!path.empty(), ErrorCode::config, "workload 'recorded' has no file",
           "its gradients are read from one", "add --gradients FILE");
  const auto recorded = workload::open_recorded(path);
  RunConfig config = main_config();
  // The main job's scaler overflows twice before it backs off; a recording may have few steps.
  config.scaler.hysteresis = 1;
  apply_toml(config, recorded->settings(), path + ", metadata settings");
  config.steps = recorded->steps();
  config.micro_batches = recorded->micro_batches();
  return config;
}

void check_recordable(const RunConfig& config) {
  ZP_CHECK(config.loss_reduction == LossReduction::mean, ErrorCode::config,
           "run.loss_reduction is \"tokens\" with recorded gradients",
           "a recording has no token counts",
           "use \"mean\", and a recipe that does not set it (adamw-tokens does)");
  ZP_CHECK(!config.idle_tensors, ErrorCode::config,
           "run.idle_tensors is true with recorded gradients",
           "a recording has a gradient for every tensor", "leave the setting out");
}

void check_recorded(const RunConfig& config, const std::string& path) {
  const auto recorded = workload::open_recorded(path);
  ZP_CHECK(config.steps <= recorded->steps(), ErrorCode::config,
           "run.steps is " + std::to_string(config.steps) + " but " + path + " has " +
               std::to_string(recorded->steps()),
           "the gradients of later steps are not recorded", "use fewer steps");
  ZP_CHECK(config.micro_batches == recorded->micro_batches(), ErrorCode::config,
           "run.micro_batches is " + std::to_string(config.micro_batches) + " but " + path +
               " has " + std::to_string(recorded->micro_batches()),
           "the gradient of a step is the mean over all of them", "leave the setting out");
  check_recordable(config);
}

}  // namespace zeroproof::verification
