#pragma once
// Flags of `zeroproof plan`, and the settings of a plan made from them.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/tools/plan/plan.hpp"

namespace zeroproof::verification {

/// Names of flags, and whether they have another value than at first.
using GivenFlags = std::vector<std::pair<std::string, std::function<bool()>>>;

/// As typed; turned into settings after parsing, so that every error has one form.
struct PlanFlags {
  std::string model,
      grid = "1x1x1", world, stage = "all", dtype = "bf16", grad_dtype, rule = "adamw", momentum,
      micro_batches, order = "by_stage", windows = "off", space = "host", bucket, instances,
      clip_groups, alpha, beta, memory, offload, offload_order = "flat", offload_place = "host",
      offload_chunk, offload_overlap = "on", offload_grads = "off", exp_avg_dtype = "fp32",
      exp_avg_sq_dtype = "fp32", master_dtype = "fp32", matrix_owners = "every",
      matrix_tensor_parallel = "duplicated", scale_recipe, scale_blocks, amax_history;
  std::vector<std::string> counts, adamw;
  std::string svg_file, json_file;
  bool owners = false, measure = false, columnwise = false;
  std::string layout, rank, config_file;
  GivenFlags of_bytes, of_owners;  ///< flags that only one of the two plans uses
};

/// Errors (ErrorCode::config), naming the flag and the nearest choice.
template <class Choice>
Choice named_choice(const std::string& text, const std::string& flag) {
  const auto names = names_of(Choice{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<Choice>(i);
  }
  fail(ErrorCode::config, flag + " is '" + text + "'", "it is not in the list",
       suggestion(text, {names.begin(), names.end()}));
}

/// More elements than any plan has.
inline constexpr std::int64_t most_planned_elements = std::int64_t{1} << 40;

/// Errors: ErrorCode::config for a value that no plan can have, or one that would be ignored.
PlanSettings settings_of(const PlanFlags& flags);

}  // namespace zeroproof::verification
