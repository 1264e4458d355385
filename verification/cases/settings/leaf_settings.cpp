// Gradients: which tensors have one, the policy for non-finite ones, and the divisor of their sum.

#include <algorithm>

#include "verification/cases/settings/setting.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* first_tensor = "token_embedding.weight";

/// One infinite element: none, in the last tensor in the middle of the run or in its last step, or
/// in the first tensor in the step before.
Setting overflow() {
  const auto value = [](const std::string& name, const auto& step, const char* tensor) {
    return SettingValue{name,
                        [=](RunConfig& c) {
                          c.overflow_step = step(c);
                          c.overflow_tensor = tensor;
                        },
                        [=](const RunConfig& c) {
                          const bool first = c.overflow_tensor == first_tensor;
                          return c.overflow_step == step(c) && first == (tensor == first_tensor);
                        }};
  };
  const auto middle = [](const RunConfig& c) { return (c.steps + 1) / 2; };
  Setting setting{"overflow", {"run.overflow_step", "run.overflow_tensor"}, {}};
  setting.values = {
      {"never",
       [](RunConfig& c) {
         c.overflow_step = 0;
         c.overflow_tensor.clear();
       },
       [](const RunConfig& c) { return c.overflow_step == 0; }},
      value("middle", middle, ""),
      value(
          "first-tensor", [](const RunConfig& c) { return std::max<std::int64_t>(c.steps - 1, 1); },
          first_tensor),
      value(
          "last-step", [](const RunConfig& c) { return c.steps; }, "")};
  return setting;
}

}  // namespace

std::vector<Setting> leaf_settings() {
  std::vector<Setting> table = {
      off_and_on(
          "idle_tensors", "run.idle_tensors", [](auto& c) -> auto& { return c.idle_tensors; }),
      every_choice(
          "missing_grad", "run.missing_grad", [](auto& c) -> auto& { return c.missing_grad; }),
      every_choice(
          "loss_reduction", "run.loss_reduction",
          [](auto& c) -> auto& { return c.loss_reduction; }),
      overflow(),
      every_choice(
          "on_nonfinite", "run.on_nonfinite", [](auto& c) -> auto& { return c.on_nonfinite; }),
      every_choice(
          "rounding", "run.param_rounding", [](auto& c) -> auto& { return c.param_rounding; })};
  return table;
}

}  // namespace zeroproof::verification
