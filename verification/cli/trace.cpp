#include "verification/tools/trace/trace.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <functional>

#include "common/base/error.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/config/flag_number.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cli/case_flags.hpp"
#include "verification/cli/commands.hpp"
#include "verification/faults/catalogue.hpp"
#include "verification/report/progress.hpp"
#include "verification/report/report_files.hpp"

namespace zeroproof::verification {
namespace {

struct TraceFlags {
  std::string stage = "2", world = "2", micro_batches = "4", rule = "adamw", steps = "2",
              dtype = "bf16", loss_scale = "1024", overflow_step = "0", seed = "2026", bucket = "0",
              matrix_owners = "every", clip_group, scale_recipe, fault, folder, json_file,
              html_file, timeline_file;
  bool columnwise = false;
};

UpdateRule rule_named(const std::string& text) {
  const auto names = names_of(UpdateRule{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<UpdateRule>(i);
  }
  fail(ErrorCode::config, "rule '" + text + "' does not exist",
       "it selects how the master is updated", suggestion(text, {names.begin(), names.end()}));
}

MatrixOwners owners_named(const std::string& text) {
  const auto names = names_of(MatrixOwners{});
  const auto found = std::ranges::find(names, text);
  ZP_CHECK(found != names.end(), ErrorCode::config, "--matrix-owners is '" + text + "'",
           "it is not in the list", suggestion(text, {names.begin(), names.end()}));
  return static_cast<MatrixOwners>(found - names.begin());
}

DType dtype_named(const std::string& text) {
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32, DType::e4m3, DType::e5m2}) {
    if (name(dtype) == text) return dtype;
  }
  fail(ErrorCode::config, "dtype '" + text + "' does not exist",
       "it selects the format of parameters",
       suggestion(text, {"bf16", "fp16", "fp32", "e4m3", "e5m2"}));
}

/// A history of three slots, so that the oldest is dropped within a trace.
ParamScaling scaling_of(const TraceFlags& flags, DType dtype) {
  ZP_CHECK(has_scales(dtype) || (flags.scale_recipe.empty() && !flags.columnwise),
           ErrorCode::config, "scales were requested for parameters of " + std::string(name(dtype)),
           "only 8-bit parameters have them",
           "add --dtype e4m3, or leave --scale-recipe and --columnwise out");
  const auto names = names_of(ScaleRecipe{});
  const std::string asked = flags.scale_recipe.empty() ? "current" : flags.scale_recipe;
  const auto found = std::find(names.begin(), names.end(), asked);
  ZP_CHECK(found != names.end(), ErrorCode::config, "scale recipe '" + asked + "' does not exist",
           "it selects how a scale is computed", suggestion(asked, {names.begin(), names.end()}));
  ParamScaling scaling = zeroproof::scaling_of(static_cast<ScaleRecipe>(found - names.begin()));
  scaling.history = 3;
  scaling.columnwise = flags.columnwise;
  return scaling;
}

/// Of a power of two.
int log2_of(const std::string& text, const std::string& flag) {
  const auto scale = flag_number<std::uint64_t>(text, flag);
  ZP_CHECK(std::has_single_bit(scale), ErrorCode::config, flag + " is " + text,
           "loss scales are powers of two, so that dividing by them loses no bit",
           "use one, as in " + flag + " 1024");
  return std::countr_zero(scale);
}

void check_traced_fault(const std::string& id) {
  check_fault(id);
  for (const Fault& fault : fault_catalogue()) {
    ZP_CHECK(fault.id != id || fault.phase, ErrorCode::config,
             "the fault '" + id + "' is one of L-BFGS",
             "a trace shows the phases of R6, which L-BFGS does not have",
             "use verify 'lbfgs/*' --fault " + id);
  }
}

TraceSettings settings_of(const TraceFlags& flags) {
  TraceSettings settings;
  settings.stage = flag_number<int>(flags.stage, "--stage");
  settings.world_size = flag_number<int>(flags.world, "--world");
  settings.micro_batches = flag_number<int>(flags.micro_batches, "--micro-batches");
  settings.rule = rule_named(flags.rule);
  settings.clip_group = flags.clip_group;
  settings.matrix_owners = owners_named(flags.matrix_owners);
  settings.steps = flag_number<int>(flags.steps, "--steps");
  settings.param_dtype = dtype_named(flags.dtype);
  settings.scaling = scaling_of(flags, settings.param_dtype);
  settings.log2_loss_scale = log2_of(flags.loss_scale, "--loss-scale");
  settings.overflow_step = flag_number<int>(flags.overflow_step, "--overflow-step");
  settings.seed = flag_number<std::uint64_t>(flags.seed, "--seed");
  settings.bucket_numel = flag_number<std::int64_t>(flags.bucket, "--bucket");
  settings.fault = flags.fault;
  check_traced_fault(flags.fault);
  return settings;
}

struct OutputFile {
  std::string file;
  std::function<std::string(const StepTrace&)> content;
};

int run_trace(const TraceFlags& flags) {
  const TraceSettings settings = settings_of(flags);
  const auto text = [](const StepTrace& trace) { return trace_text(trace, false); };
  std::vector<OutputFile> outputs;
  // First: it can refuse, and then nothing is written.
  if (!flags.html_file.empty()) outputs.push_back({flags.html_file, trace_html});
  if (!flags.json_file.empty()) outputs.push_back({flags.json_file, trace_json});
  if (!flags.timeline_file.empty()) outputs.push_back({flags.timeline_file, timeline_json});
  if (!flags.folder.empty()) {
    outputs.push_back({flags.folder + "/trace.txt", text});
    outputs.push_back({flags.folder + "/memory_map.txt", memory_map_text});
    outputs.push_back({flags.folder + "/trace.json", trace_json});
    outputs.push_back({flags.folder + "/timeline.json", timeline_json});
  }
  for (const OutputFile& output : outputs) check_report_file(output.file);
  const StepTrace trace = trace_step(settings);
  for (const OutputFile& output : outputs) write_report_file(output.file, output.content(trace));
  std::string out;
  if (flags.folder.empty())
    out = trace_text(trace, wants_colour(STDOUT_FILENO)) + "\n" + memory_map_text(trace);
  for (const OutputFile& output : outputs) out += "written: " + output.file + "\n";
  std::fputs(out.c_str(), stdout);
  return 0;
}

}  // namespace

void add_trace(CommandSet& commands) {
  const Command command = commands.add("trace",
                                       "print steps of a model of 16 parameters: every value of "
                                       "every phase on every rank, memory, timeline");
  const auto flags = std::make_shared<TraceFlags>();
  command.option("--stage", flags->stage, "ZeRO stage, 0 to 3 (default: 2)");
  command.option("--world", flags->world, "ranks, as threads, 1 to 4 (default: 2)");
  command.option("--micro-batches", flags->micro_batches,
                 "micro-batches of a step, 1 to 16 (default: 4)");
  command.option("--rule", flags->rule, listed(names_of(UpdateRule{})) + " (default: adamw)");
  command.option("--matrix-owners", flags->matrix_owners,
                 "of muon: every, round_robin, balanced: ranks that orthogonalise a matrix "
                 "(default: every)");
  command.option("--steps", flags->steps, "steps, 1 to 8 (default: 2)");
  command.option(
      "--dtype", flags->dtype,
      "of parameters: bf16, fp16, fp32, e4m3 or e5m2 (default: bf16); gradients are fp16 with "
      "fp16, else fp32");
  command.option("--scale-recipe", flags->scale_recipe,
                 "of e4m3 and e5m2: " + listed(names_of(ScaleRecipe{})) + " (default: current)");
  command.flag("--columnwise", flags->columnwise,
               "a second copy of 8-bit parameters, for products along columns");
  command.option("--loss-scale", flags->loss_scale,
                 "of the first step, a power of two (default: 1024); it doubles after two steps "
                 "without overflow");
  command.option("--overflow-step", flags->overflow_step,
                 "step whose last gradient is infinite (default: 0, none)");
  command.option("--seed", flags->seed, "of first parameters and gradients (default: 2026)");
  command.option("--bucket", flags->bucket,
                 "elements of a bucket, a multiple of 1024 (default: 0, everything in one)");
  command.option(
      "--clip-group", flags->clip_group,
      "head.bias, '*.weight' or another glob: tensors that are clipped by a separate norm");
  command.option("--fault", flags->fault,
                 "plant this into production and show its values (zeroproof-faults only)");
  command.option(
      "--out", flags->folder,
      "folder for trace.txt, memory_map.txt, trace.json and timeline.json, instead of printing");
  command.option("--json", flags->json_file, "file for all values (zeroproof-trace/1)");
  command.option("--html", flags->html_file,
                 "file for a player of its events, one self-contained page");
  command.option("--timeline", flags->timeline_file,
                 "file for the timeline (Chrome trace events; ui.perfetto.dev opens it)");
  command.runs([flags] { return run_trace(*flags); });
}

}  // namespace zeroproof::verification
