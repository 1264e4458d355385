#include "verification/cli/plan_flags.hpp"

#include "verification/cases/config/config.hpp"
#include "verification/cases/config/flag_number.hpp"

namespace zeroproof::verification {
namespace {

OptimizerHyper hyper_of(const PlanFlags& flags) {
  OptimizerHyper hyper;
  hyper.rule = named_choice<UpdateRule>(flags.rule, "--rule");
  if (!flags.momentum.empty())
    hyper.momentum = flag_number<double>(flags.momentum, "--momentum", 0, 1);
  return hyper;
}

Space space_of(const std::string& text) {
  ZP_CHECK(text == "host" || text == "device", ErrorCode::config, "--space is '" + text + "'",
           "it is not in the list", suggestion(text, {"host", "device"}));
  return text == "host" ? Space::host : Space::device;
}

Offload offload_of(const PlanFlags& flags) {
  Offload offload;
  if (!flags.offload.empty())
    offload.fraction = flag_number<double>(flags.offload, "--offload", 0, 1);
  offload.order = named_choice<OffloadOrder>(flags.offload_order, "--offload-order");
  offload.place = named_choice<OffloadPlace>(flags.offload_place, "--offload-place");
  if (!flags.offload_chunk.empty())
    offload.chunk_numel =
        flag_number<std::int64_t>(flags.offload_chunk, "--offload-chunk", 1, most_planned_elements);
  const auto is_on = [](const std::string& text, const char* flag, const char* meaning) {
    ZP_CHECK(text == "on" || text == "off", ErrorCode::config,
             std::string(flag) + " is '" + text + "'", meaning, "use on or off");
    return text == "on";
  };
  offload.overlap = is_on(flags.offload_overlap, "--offload-overlap",
                          "it selects whether copies of chunks overlap with updates");
  offload.grads =
      is_on(flags.offload_grads, "--offload-grads",
            "it selects whether the gradient sum of offloaded elements is offloaded too");
  return offload;
}

/// Refuses flags that would be ignored.
ParamScaling scaling_of(const PlanFlags& flags, DType param_dtype) {
  const bool asked = !flags.scale_recipe.empty() || !flags.scale_blocks.empty() ||
                     !flags.amax_history.empty() || flags.columnwise;
  ZP_CHECK(!asked || has_scales(param_dtype), ErrorCode::config,
           "scales were requested for parameters of " + std::string(name(param_dtype)),
           "only 8-bit parameters have them",
           "add --dtype e4m3, or leave --scale-recipe, --scale-blocks, --amax-history and "
           "--columnwise out");
  ParamScaling scaling = zeroproof::scaling_of(
      flags.scale_recipe.empty() ? ScaleRecipe::current
                                 : named_choice<ScaleRecipe>(flags.scale_recipe, "--scale-recipe"));
  const auto needs = [&](bool given, const char* flag, ScaleRecipe recipe) {
    ZP_CHECK(!given || scaling.recipe == recipe, ErrorCode::config,
             std::string(flag) + " was given with the recipe " + std::string(name(scaling.recipe)),
             "only " + std::string(name(recipe)) + " has them",
             "leave it out, or change --scale-recipe");
  };
  needs(!flags.scale_blocks.empty(), "--scale-blocks", ScaleRecipe::blockwise);
  needs(!flags.amax_history.empty(), "--amax-history", ScaleRecipe::delayed);
  if (!flags.scale_blocks.empty())
    scaling.blocks = named_choice<ScaleBlocks>(flags.scale_blocks, "--scale-blocks");
  if (!flags.amax_history.empty())
    scaling.history = flag_number<std::int64_t>(flags.amax_history, "--amax-history", 1, 1024);
  scaling.columnwise = flags.columnwise;
  return scaling;
}

}  // namespace

PlanSettings settings_of(const PlanFlags& flags) {
  PlanSettings s;
  s.grid = planned_grid(flags.grid, flags.world.empty()
                                        ? 0
                                        : flag_number<std::int64_t>(flags.world, "--world", 1,
                                                                    most_planned_elements));
  if (flags.stage != "all") s.stages = {flag_number<int>(flags.stage, "--stage", 0, 3, ", or all")};
  s.param_dtype = parse_param_dtype(flags.dtype);
  s.grad_dtype = flags.grad_dtype.empty() ? DType::fp32 : parse_param_dtype(flags.grad_dtype);
  ZP_CHECK(is_param_format(s.grad_dtype), ErrorCode::config,
           "--grad-dtype is '" + flags.grad_dtype + "'", "gradients never have 8 bits",
           "use bf16, fp16 or fp32");
  s.scaling = scaling_of(flags, s.param_dtype);
  s.hyper = hyper_of(flags);
  s.state_formats = {named_choice<StateFormat>(flags.exp_avg_dtype, "--exp-avg-dtype"),
                     named_choice<StateFormat>(flags.exp_avg_sq_dtype, "--exp-avg-sq-dtype"),
                     named_choice<MasterFormat>(flags.master_dtype, "--master-dtype")};
  s.matrix_owners = named_choice<MatrixOwners>(flags.matrix_owners, "--matrix-owners");
  s.matrix_tensor_parallel =
      named_choice<MatrixTensorParallel>(flags.matrix_tensor_parallel, "--matrix-tensor-parallel");
  s.adamw = flags.adamw;
  if (!flags.micro_batches.empty()) {
    s.micro_batches = flag_number<std::int64_t>(flags.micro_batches, "--micro-batches", 1, 1 << 20);
  }
  s.order = named_choice<MicroBatchOrder>(flags.order, "--order");
  s.windows = named_choice<Windows>(flags.windows, "--windows");
  s.space = space_of(flags.space);
  ZP_CHECK(s.space == Space::host || s.windows == Windows::off, ErrorCode::config,
           "--windows " + flags.windows + " was given with --space device",
           "windows are memory of the host, and devices exchange messages",
           "leave one of the two out");
  if (!flags.bucket.empty())
    s.bucket_numel =
        flag_number<std::int64_t>(flags.bucket, "--bucket", 1024, most_planned_elements);
  ZP_CHECK(s.bucket_numel % layout_alignment == 0, ErrorCode::config, "--bucket is " + flags.bucket,
           "bucket boundaries are multiples of 1024", "use a multiple of 1024");
  if (!flags.instances.empty())
    s.instances = flag_number<int>(flags.instances, "--instances", 1, most_planned_ranks);
  if (!flags.clip_groups.empty())
    s.clip_groups = flag_number<std::int64_t>(flags.clip_groups, "--clip-groups", 1, 1 << 20);
  s.offload = offload_of(flags);
  if (!flags.alpha.empty())
    s.machine.alpha_us = flag_number<double>(flags.alpha, "--alpha", 0, 1e9);
  if (!flags.beta.empty())
    s.machine.beta_gbs = flag_number<double>(flags.beta, "--beta", 1e-6, 1e9);
  if (!flags.memory.empty())
    s.machine.memory_gbs = flag_number<double>(flags.memory, "--memory", 1e-6, 1e9);
  return s;
}

}  // namespace zeroproof::verification
