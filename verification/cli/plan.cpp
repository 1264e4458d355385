#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/base/error.hpp"
#include "common/step/param_groups.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/config/flag_number.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/plan_flags.hpp"
#include "verification/report/format.hpp"
#include "verification/report/progress.hpp"
#include "verification/report/report_files.hpp"
#include "verification/tools/plan/measured_plan.hpp"
#include "verification/tools/plan/owners.hpp"
#include "verification/tools/plan/plan.hpp"
#include "verification/tools/plan/report.hpp"

namespace zeroproof::verification {
namespace {

PlanSections sections_of(const std::vector<std::string>& counts) {
  if (counts.empty()) return {};
  static const std::vector<std::string> known = {"contract", "zero-paper", "deepspeed", "megatron",
                                                 "claims"};
  PlanSections sections{false, false, false, false, false};
  bool* const parts[] = {&sections.contract, &sections.zero_paper, &sections.deepspeed,
                         &sections.megatron, &sections.claims};
  for (const std::string& count : counts) {
    const auto found = std::find(known.begin(), known.end(), count);
    ZP_CHECK(found != known.end(), ErrorCode::config, "--count is '" + count + "'",
             "it is not in the list", suggestion(count, known));
    *parts[found - known.begin()] = true;
  }
  return sections;
}

/// Flags that belong to bytes, or to owners: the others would do nothing.
void require_fitting_flags(const PlanFlags& flags) {
  for (const auto& [flag, given] : flags.owners ? flags.of_bytes : flags.of_owners) {
    ZP_CHECK(!given(), ErrorCode::config,
             flag + (flags.owners ? " was given with --owners" : " was given without --owners"),
             flags.owners ? "ownership does not depend on it"
                          : "bytes are planned for the contract's layout",
             flags.owners ? "leave one of the two out" : "add --owners");
  }
}

/// [num_tensors] of the model's tensors, by the [[param_group]] of a configuration.
std::vector<int> groups_of(const std::string& config_file, const PlannedModel& model) {
  if (config_file.empty()) return {};
  RunConfig config = main_config();
  apply_toml_file(config, config_file);
  return make_param_groups(config.param_groups, config.schedule, FlatLayout(tp_shapes(model, 1)))
      .of_tensor;
}

/// The [[matrix_split]] of a configuration.
std::vector<MatrixSplitRule> splits_of(const PlanFlags& flags, const PlanSettings& settings) {
  if (flags.config_file.empty()) return {};
  ZP_CHECK(traits_of(settings.hyper.rule).matrices, ErrorCode::config,
           "--config was given without --owners and --rule muon",
           "bytes depend on its [[matrix_split]] only", "add --owners or --rule muon");
  RunConfig config = main_config();
  apply_toml_file(config, flags.config_file);
  ZP_CHECK(!config.matrix_splits.empty(), ErrorCode::config,
           "--config " + flags.config_file + " has no [[matrix_split]]",
           "nothing else of it is planned", "use the flags of plan, and leave --config out");
  return config.matrix_splits;
}

/// Flags of owners that only some layouts use.
void require_fitting_layout(const PlanFlags& flags, LayoutKind layout) {
  const std::string with = " was given with --layout " + std::string(name(layout));
  ZP_CHECK(flags.config_file.empty() || layout == LayoutKind::deepspeed_flat ||
               layout == LayoutKind::greedy,
           ErrorCode::config, "--config" + with, "it distributes all param groups in the same way",
           "leave it out, or use deepspeed_flat or greedy");
  ZP_CHECK(flags.bucket.empty() || layout == LayoutKind::contract || layout == LayoutKind::megatron,
           ErrorCode::config, "--bucket" + with, "owners do not depend on buckets there",
           "leave it out, or use contract or megatron");
}

int run_owners(PlanFlags flags) {
  OwnersSettings settings;
  if (!flags.layout.empty()) settings.layout = named_choice<LayoutKind>(flags.layout, "--layout");
  require_fitting_layout(flags, settings.layout);
  std::string any_bucket;  // only the contract cuts at multiples of 1024
  if (settings.layout == LayoutKind::megatron) std::swap(any_bucket, flags.bucket);
  const PlanSettings planned = settings_of(flags);
  require_whole_instances(planned);
  settings.world_size = planned.grid.data_ranks() / planned.instances;
  settings.tp = planned.grid.tp;
  settings.bucket_numel = any_bucket.empty() ? planned.bucket_numel
                                             : flag_number<std::int64_t>(any_bucket, "--bucket", 1,
                                                                         most_planned_elements);
  if (!flags.rank.empty())
    settings.rank = flag_number<int>(flags.rank, "--rank", 0, most_planned_ranks);
  const PlannedModel model = load_model(flags.model);
  settings.group_of = groups_of(flags.config_file, model);
  if (!flags.json_file.empty()) check_report_file(flags.json_file);
  const Owners owners = make_owners(model, settings);
  if (!flags.json_file.empty()) write_report_file(flags.json_file, owners_json(owners));
  std::fputs(owners_text(owners, wants_colour(STDOUT_FILENO)).c_str(), stdout);
  return 0;
}

int run_plan(const PlanFlags& flags) {
  require_fitting_flags(flags);
  if (flags.owners) return run_owners(flags);
  PlanSettings settings = settings_of(flags);
  settings.matrix_splits = splits_of(flags, settings);
  const PlanSections sections = sections_of(flags.counts);
  for (const std::string* file : {&flags.svg_file, &flags.json_file}) {
    if (!file->empty()) check_report_file(*file);
  }
  const PlannedModel model = load_model(flags.model);
  Plan plan = make_plan(model, settings);
  if (flags.measure) measure(model, plan);
  if (!flags.svg_file.empty()) write_report_file(flags.svg_file, plan_svg(plan));
  if (!flags.json_file.empty()) write_report_file(flags.json_file, plan_json(plan));
  std::fputs(plan_text(plan, sections, wants_colour(STDOUT_FILENO)).c_str(), stdout);
  return 0;
}

}  // namespace

void add_plan(CommandSet& commands) {
  const Command command =
      commands.add("plan",
                   "bytes and messages of a step on any grid of ranks: this project's, "
                   "the papers', and figures in circulation");
  const auto flags = std::make_shared<PlanFlags>();
  const auto only = [&command](GivenFlags& of_one) {
    return [&](const char* flag, auto& target, const std::string& help) {
      command.add(flag, target, help);
      of_one.emplace_back(flag, [&target, unset = target] { return target != unset; });
    };
  };
  const auto bytes = only(flags->of_bytes);
  const auto owners = only(flags->of_owners);
  command.required(
      "model", flags->model,
      "MODEL.toml, FILE.safetensors, a folder, *.index.json or config.json of Hugging Face, " +
          workload_list());
  command.add("--grid", flags->grid,
              "data x context x tensor parallel ranks, at most 16384 (default: 1x1x1)");
  command.add("--world", flags->world, "number of ranks, the product of the grid");
  bytes("--stage", flags->stage, "ZeRO stage 0 to 3, or all (default)");
  bytes("--dtype", flags->dtype, "of parameters: bf16, fp16, fp32, e4m3, e5m2 (default: bf16)");
  bytes("--grad-dtype", flags->grad_dtype,
        "of gradients as they arrive: fp32, bf16, fp16 (default: fp32)");
  command.add("--scale-recipe", flags->scale_recipe,
              "of e4m3 and e5m2: " + listed(names_of(ScaleRecipe{})) + " (default: current)");
  command.add("--scale-blocks", flags->scale_blocks,
              "of blockwise: " + listed(names_of(ScaleBlocks{})) + " (default: square_128)");
  command.add("--amax-history", flags->amax_history, "slots of delayed, 1 to 1024 (default: 1024)");
  command.add("--columnwise", flags->columnwise,
              "a second copy of 8-bit parameters, for products along columns");
  bytes("--rule", flags->rule, listed(names_of(UpdateRule{})) + " (default: adamw)");
  bytes("--momentum", flags->momentum, "of sgd; 0 has no buffer (default: 0)");
  bytes("--exp-avg-dtype", flags->exp_avg_dtype,
        "fp32, bf16, fp16, e4m3: storage type of exp_avg and momentum_buffer (default: fp32)");
  bytes("--exp-avg-sq-dtype", flags->exp_avg_sq_dtype,
        "the same for exp_avg_sq and max_exp_avg_sq (default: fp32)");
  bytes("--master-dtype", flags->master_dtype,
        "fp32, bf16: storage type of the master (default: fp32)");
  bytes(
      "--matrix-owners", flags->matrix_owners,
      "of muon: every, round_robin, balanced: ranks that orthogonalise a matrix (default: every)");
  bytes(
      "--matrix-tensor-parallel", flags->matrix_tensor_parallel,
      "of muon: duplicated, distributed: each TP rank has a whole matrix that they split, or they "
      "share the work (default: duplicated)");
  bytes(
      "--adamw", flags->adamw,
      "of muon: globs of the matrices that adamw updates, with commas (default: those with embed, "
      "head, wte or wpe in their names)");
  bytes("--micro-batches", flags->micro_batches,
        "per step, over all ranks (default: one per data parallel rank)");
  bytes("--order", flags->order,
        "by_stage, contiguous, strided: assignment of micro-batches to ranks (default: by_stage)");
  bytes("--windows", flags->windows,
        "off, on, params: ranks that share a state read each other's memory (default: off)");
  bytes("--space", flags->space,
        "host, device: where a rank's buffers are; on devices steps are enqueued (default: host)");
  command.add("--bucket", flags->bucket,
              "elements reduced together, a multiple of 1024 (default: 262144)");
  command.add("--instances", flags->instances,
              "optimizer instances, each with its own copy of the state (default: 1)");
  bytes("--offload", flags->offload,
        "fraction of a rank's elements, 0 to 1, whose state is offloaded (default: 0)");
  command.add("--offload-order", flags->offload_order,
              "flat, tensors: offloaded elements (default: flat)");
  command.add("--offload-place", flags->offload_place,
              "host, file: where their state is stored (default: host)");
  command.add("--offload-chunk", flags->offload_chunk,
              "elements per copied chunk (default: 262144)");
  command.add("--offload-overlap", flags->offload_overlap,
              "on, off: overlap copies of chunks with updates (default: on)");
  command.add("--offload-grads", flags->offload_grads,
              "on, off: offload the gradient sum of those elements too (default: off)");
  bytes("--clip-groups", flags->clip_groups,
        "norms of a step, 23 words each, with the default one (default: 1)");
  bytes(
      "--count", flags->counts,
      "contract, zero-paper, deepspeed, megatron, claims; several with commas (default: contract)");
  bytes("--alpha", flags->alpha, "microseconds per message (default: 5)");
  bytes("--beta", flags->beta, "GB/s a rank sends (default: 360)");
  bytes("--memory", flags->memory, "GB/s of a rank's memory (default: 4300)");
  bytes(
      "--measure", flags->measure,
      "also run two steps of every stage on threads, and show the measured counts beside the plan");
  command.add("--owners", flags->owners,
              "print the ownership of elements and the padding instead of bytes");
  owners("--layout", flags->layout,
         "with --owners: " + listed(names_of(LayoutKind{})) + " (default: contract)");
  owners("--rank", flags->rank, "with --owners: only this one of the ranks that share the state");
  command.add(
      "--config", flags->config_file,
      "with --owners: TOML file with the param groups that deepspeed_flat and greedy distribute; "
      "with --rule muon: TOML file with the splits of matrices");
  bytes("--svg", flags->svg_file, "file for a picture: a bar per stage");
  command.add("--json", flags->json_file,
              "file for all numbers (schema zeroproof-plan/1, zeroproof-owners/1)");
  command.runs([flags] { return run_plan(*flags); });
}

}  // namespace zeroproof::verification
