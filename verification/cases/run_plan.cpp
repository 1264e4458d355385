#include "verification/cases/run_plan.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "cuda/device/runtime/device.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/id_pattern.hpp"
#include "verification/cases/obstacle.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/cases/recorded.hpp"
#include "verification/cli/program/capabilities.hpp"

namespace zeroproof::verification {
namespace {

std::vector<ImplementationMode> implementation_modes(const VerifyOptions& options) {
  std::vector<Implementation> implementations = options.implementations;
  if (implementations.empty() && options.plugin) {
    implementations = {Implementation::plugin};
  } else if (implementations.empty()) {
    implementations = {Implementation::host, Implementation::host_fused};
    if (device_answers())
      implementations.insert(
          implementations.end(),
          {Implementation::device, Implementation::device_fused, Implementation::device_graph});
  }
  std::vector<ImplementationMode> result;
  for (const Implementation implementation : implementations) {
    if (options.modes.empty() && implementation.foreign) {
      if (options.plugin_steps) result.push_back({implementation, Mode::whole});
      if (options.plugin_operates || !options.plugin_steps)
        result.push_back({implementation, Mode::lockstep});
    } else if (options.modes.empty()) {
      result.push_back({implementation, implementation.graphs  ? Mode::whole
                                        : implementation.fused ? Mode::free
                                                               : Mode::lockstep});
    }
    for (const Mode mode : options.modes) {
      if (implementation.runs_in(mode)) result.push_back({implementation, mode});
    }
  }
  ZP_CHECK(!result.empty(), ErrorCode::config,
           "none of the implementations runs in the requested mode",
           "whole steps need fused passes, and graphs have no phases",
           "use --mode whole with host-fused, device-fused, device-graph or a plug-in, and "
           "lockstep or free with "
           "those that have phases");
  return result;
}

bool is_built_in(const std::string& workload) {
  return std::find(workload_names().begin(), workload_names().end(), workload) !=
         workload_names().end();
}

/// Errors (ErrorCode::config): a part of a pattern is invalid in its position.
void check_training_parts(const std::string& pattern) {
  using Parts = std::vector<std::string>;
  const auto any = [](const Parts&) { return Parts{}; };
  const auto among = [](Parts names) { return [names](const Parts&) { return names; }; };
  Parts workloads = workload_names(), recipe_names, implementations, dtypes, modes;
  workloads.emplace_back(recorded_workload);
  for (const Recipe& recipe : recipes()) recipe_names.emplace_back(recipe.name);
  for (const Implementation one : all_implementations) implementations.emplace_back(name(one));
  for (const DType dtype : param_dtypes) dtypes.emplace_back(name(dtype));
  for (const Mode mode : all_modes) modes.emplace_back(name(mode));
  const IdGrammar grammar = {{"workload", among(workloads)},
                             {"recipe", among(recipe_names), true},
                             {"implementation", among(implementations)},
                             {"stage", among({"stage0", "stage1", "stage2", "stage3"})},
                             {"world", any},
                             {"dtype", among(dtypes)},
                             {"mode", among(modes)},
                             {"bucket", any},
                             {"number of threads", any}};
  check_parts(pattern, grammar, true);
}

/// Recorded gradients take the place of the built-in workloads.
std::vector<std::string> workloads_of(const VerifyOptions& options) {
  return options.gradients.empty() ? workload_names() : std::vector<std::string>{recorded_workload};
}

/// Errors (ErrorCode::config): the workload does not exist, or not with these options.
void check_workload(const VerifyOptions& options, const std::string& workload) {
  if (workload == recorded_workload) {
    recorded_defaults(options.gradients);
    return;
  }
  workload_defaults(workload);
  ZP_CHECK(options.gradients.empty(), ErrorCode::config,
           "workload '" + workload + "' cannot be combined with --gradients",
           "it computes its own gradients", "leave one of the two out");
}

RunConfig unchecked_config(const VerifyOptions& options, const std::string& workload) {
  const bool recorded = workload == recorded_workload;
  RunConfig config = recorded ? recorded_defaults(options.gradients) : workload_defaults(workload);
  if (!options.config_file.empty()) apply_toml_file(config, options.config_file);
  options.overrides(config);
  return config;
}

/// True if neither file nor command line chooses windows.
bool has_default_windows(const VerifyOptions& options) {
  RunConfig config;
  config.windows.clear();
  if (!options.config_file.empty()) apply_toml_file(config, options.config_file);
  options.overrides(config);
  return config.windows.empty();
}

/// A setting of the configuration file that the recipe replaces, "" if there is none.
std::string replaced_setting(const VerifyOptions& options, const std::string& workload,
                             const RunConfig& config, const std::string& recipe) {
  if (options.config_file.empty()) return "";
  VerifyOptions plain = options;
  plain.config_file.clear();
  return ignored_setting(unchecked_config(plain, workload), config, recipe);
}

/// The norm on the command line overrides that of the recipe.
void set_norm(const VerifyOptions& options, RunConfig& config) {
  if (options.norm) config.optimizer.norm = *options.norm;
  if (options.max_norm) config.optimizer.max_norm = *options.max_norm;
}

/// The configuration under a recipe. Errors (ErrorCode::config): the recipe replaces a setting of the file.
RunConfig recipe_config(const VerifyOptions& options, const std::string& workload,
                        const RunConfig& config, const std::string& recipe) {
  const std::string ignored = replaced_setting(options, workload, config, recipe);
  ZP_CHECK(ignored.empty(), ErrorCode::config,
           "recipe " + recipe + " replaces " + ignored + " of " + options.config_file,
           "the setting would have no effect",
           "leave it out, or set optimizer.rule and use the recipe of that name");
  RunConfig under = under_recipe(config, recipe);
  // A recording has its gradients, whatever tensors the recipe leaves idle in a model.
  if (workload == recorded_workload) under.idle_tensors = config.idle_tensors;
  set_norm(options, under);
  return under;
}

/// The default recipes of a workload: the configured step, and where steps are cheap all others,
/// except those that replace a setting of the configuration file.
std::vector<std::string> recipes_of(const VerifyOptions& options, const std::string& workload,
                                    const RunConfig& config) {
  if (!options.recipes.empty()) return options.recipes;
  std::vector<std::string> names = {configured_recipe(config)};
  if (workload != "byte_gpt_tiny") return names;
  for (const Recipe& recipe : recipes()) {
    std::string name(recipe.name);
    if (name != names.front() && replaced_setting(options, workload, config, name).empty())
      names.push_back(std::move(name));
  }
  return names;
}

/// The same options, restricted to the recipes that can match the pattern if it gives their
/// beginning: other recipes need not fit to the settings.
VerifyOptions narrowed(const VerifyOptions& options, const std::string& workload,
                       const std::string& pattern) {
  const std::vector<std::string> parts = id_parts(pattern);
  if (!options.recipes.empty() || parts.size() < 2 || parts[0] != workload) return options;
  const std::string begin = parts[1].substr(0, parts[1].find_first_of("*?"));
  VerifyOptions narrow = options;
  for (const std::string& recipe :
       recipes_of(options, workload, unchecked_config(options, workload))) {
    if (recipe.starts_with(begin)) narrow.recipes.push_back(recipe);
  }
  return narrow;  // an empty list would mean all recipes; no id matches anyway
}

/// A single rank shares memory with no other rank.
std::vector<Windows> windows_of(const RunConfig& config, const WorldSpec& world) {
  return world.size > 1 ? config.windows : std::vector<Windows>{Windows::off};
}

/// Processes with one device each use NCCL only.
std::vector<Transport> transports_of(const RunConfig& config, const WorldSpec& world) {
  return world.kind == WorldSpec::Kind::nccl ? std::vector<Transport>{Transport::nccl}
                                             : config.transport;
}

/// With a fraction of 0 there is nothing to place.
std::vector<Offload> offloads_of(const OffloadConfig& config) {
  std::vector<Offload> all;
  for (const double fraction : config.fractions) {
    if (fraction == 0) {
      all.emplace_back();
      continue;
    }
    for (const OffloadOrder order : config.orders) {
      for (const OffloadPlace place : config.places) {
        for (const std::int64_t chunk_numel : config.chunk_numels) {
          for (const bool overlap : config.overlaps) {
            for (const bool grads : config.grads)
              all.push_back({fraction, order, place, chunk_numel, overlap, {}, grads});
          }
        }
      }
    }
  }
  return all;
}

/// The parallel configurations of a world of this size.
std::vector<ParallelConfig> places_of(const RunConfig& config, const WorldSpec& world) {
  std::vector<std::optional<ProcessGrid>> grids;
  for (const std::string& text : config.grids) {
    const ProcessGrid grid = parse_grid(text);
    if (grid.world_size() == world.size) grids.emplace_back(grid);
  }
  if (config.grids.empty()) grids.emplace_back();
  std::vector<ParallelConfig> places;
  for (const MicroBatchOrder order : config.orders) {
    for (const LayoutKind layout : config.layouts) {
      for (const GradSum grad_sum : config.grad_sums) {
        for (const auto& grid : grids) {
          for (const Windows windows : windows_of(config, world)) {
            for (const Transport transport : transports_of(config, world)) {
              for (const Offload& offload : offloads_of(config.offload)) {
                places.push_back({order, layout, grad_sum, grid, config.instances,
                                  config.persistent_numel, config.overlap, windows, transport,
                                  offload});
              }
            }
          }
        }
      }
    }
  }
  return places;
}

/// Errors (ErrorCode::config): a grid for which there is no world.
void check_grids(const RunConfig& config) {
  for (const std::string& text : config.grids) {
    const ProcessGrid grid = parse_grid(text);
    const bool used = std::any_of(
        config.worlds.begin(), config.worlds.end(),
        [&](const std::string& world) { return parse_world(world).size == grid.world_size(); });
    if (!used) require_grid(grid, parse_world(config.worlds.front()).size);
  }
}

/// Errors: unavailable or config for a world nccl:N without a candidate that can run in it.
void check_device_worlds(const RunConfig& config, const VerifyOptions& options,
                         const std::vector<ImplementationMode>& implementations) {
  if (std::any_of(implementations.begin(), implementations.end(), [](const ImplementationMode& t) {
        return t.implementation.space == Space::device;
      }))
    return;
  for (const std::string& text : config.worlds) {
    const WorldSpec world = parse_world(text);
    if (world.kind != WorldSpec::Kind::nccl) continue;
    ZP_CHECK(!options.implementations.empty(), ErrorCode::unavailable,
             "world " + text + " cannot run here: " + cuda::device::device_info().detail,
             "each of its ranks needs a device",
             "leave it out; zeroproof doctor lists the capabilities of this machine");
    fail(ErrorCode::config, "world " + text + " cannot run a candidate on the host",
         "NCCL transfers device memory",
         "use --impl device, device-fused or device-graph, or --world mpi:" +
             std::to_string(world.size));
  }
}

/// Ranks of one instance in stage 0 with windows read each other's gradient sums in place. Device
/// buffers have no windows, but both sides share one setup.
bool shares_offloaded_grads(const CaseSpec& spec) {
  if (!spec.place.offload.moves_grads() || spec.stage > 0 || spec.place.windows == Windows::off)
    return false;
  const ProcessGrid grid = spec.place.grid_of(spec.world.size);
  return grid.data_ranks() / spec.place.instances > 1;
}

/// Where the default is shared windows, cases that cannot have them use messages.
bool can_share(const CaseSpec& spec) {
  return spec.implementation.space == Space::host && !spec.implementation.foreign &&
         !shares_offloaded_grads(spec);
}

/// Checks that production supports the state formats (R25).
void check_state_formats(const StateFormats& formats, const CaseSpec& spec) {
  if (formats.plain()) return;
  const char* const remedy = "use fp32 state and master, or leave that setting out";
  ZP_CHECK(!spec.implementation.foreign, ErrorCode::config,
           "state or master in fewer bits is not supported by the candidate " +
               std::string(name(spec.implementation)),
           "only this project's steps support them", remedy);
  const int tp = spec.place.grid ? spec.place.grid->tp : 1;
  const bool scales = has_scales(formats.exp_avg) || has_scales(formats.exp_avg_sq);
  ZP_CHECK(!scales || !spec.place.offload.on() || tp == 1, ErrorCode::config,
           "state in fp16 or e4m3 cannot be offloaded on " + std::to_string(tp) + " TP ranks",
           "TP ranks split blocks, and chunks consist of whole blocks",
           "use bf16, one TP rank, or leave the offload out");
}

/// Checks that the step of the candidate has the state that matrices need (R28).
void check_matrices(const RunConfig& config, const CaseSpec& spec) {
  if (!traits_of(config.optimizer.rule).matrices) return;
  ZP_CHECK(spec.implementation.space == Space::host ||
               (config.state_formats.plain() && !spec.place.offload.on()),
           ErrorCode::config,
           "the candidate " + std::string(name(spec.implementation)) +
               " has the rule muon only with state and master in fp32 in device memory",
           "its kernels make the momentum of matrices there",
           "use host or host-fused, or leave state formats and the offload out");
  if (config.matrix_tensor_parallel == MatrixTensorParallel::duplicated) return;
  const std::string what = "muon.tensor_parallel is \"distributed\"";
  const char* const remedy = ", or leave muon.tensor_parallel out";
  ZP_CHECK(
      spec.implementation.space == Space::host && !spec.implementation.foreign, ErrorCode::config,
      what + " with the candidate " + std::string(name(spec.implementation)),
      "it orthogonalises whole matrices alone", std::string("use host or host-fused") + remedy);
  ZP_CHECK(spec.place.grid && spec.place.grid->tp > 1, ErrorCode::config,
           what + " with one TP rank", "no other rank has a part of its matrices",
           std::string("use a grid with 2 or more of them, as --grid 1x1x2") + remedy);
}

}  // namespace

bool VerifyOptions::wants(Implementation implementation) const {
  if (implementations.empty()) return (plugin != nullptr) == implementation.foreign;
  return std::find(implementations.begin(), implementations.end(), implementation) !=
         implementations.end();
}

RunConfig config_of(const VerifyOptions& options, const CaseSpec& spec) {
  RunConfig config =
      recipe_config(options, spec.workload, unchecked_config(options, spec.workload), spec.recipe);
  ZP_CHECK(spec.place.grad_sum != GradSum::native || spec.mode == Mode::lockstep, ErrorCode::config,
           "a native gradient sum cannot be judged in free mode", "it has no promised bits",
           "use --mode lockstep");
  ZP_CHECK(!spec.implementation.foreign || options.plugin != nullptr, ErrorCode::config,
           "case " + spec.id() + " needs a plug-in", "none is loaded", "add --plugin FILE");
  ZP_CHECK(!spec.implementation.foreign || spec.mode != Mode::whole || options.plugin_steps,
           ErrorCode::config, "the plug-in provides no whole step", "mode whole calls it",
           "give it a step (zeroproof_plugin.h), or use --mode lockstep");
  ZP_CHECK(
      spec.place.transport == Transport::copies || spec.implementation.space == Space::device,
      ErrorCode::config,
      "transport nccl is not supported by the candidate " + std::string(name(spec.implementation)),
      "NCCL transfers device memory", "use device, device-fused or device-graph");
  ZP_CHECK(!shares_offloaded_grads(spec), ErrorCode::config,
           "offloaded gradients cannot be used in stage 0 with windows",
           "ranks read each other's gradient sums in place",
           "use --windows off, or stage 1, 2 or 3");
  check_state_formats(config.state_formats, spec);
  check_matrices(config, spec);
  take_place(config, spec);
  validate(config);
  if (spec.workload == recorded_workload) check_recorded(config, options.gradients);
  return config;
}

void take_place(RunConfig& config, const CaseSpec& spec) {
  config.dtypes = {spec.dtype};
  config.stages = {spec.stage};
  config.orders = {spec.place.order};
  config.layouts = {spec.place.layout};
  config.grad_sums = {spec.place.grad_sum};
  config.windows = {spec.place.windows};
  config.transport = {spec.place.transport};
  config.grids.clear();
  if (spec.place.grid) config.grids.push_back(spec.place.grid->id());
  config.instances = spec.place.instances;
  const Offload& offload = spec.place.offload;
  config.offload = {{offload.fraction},    {offload.order},   {offload.place},
                    {offload.chunk_numel}, {offload.overlap}, {offload.grads},
                    config.offload.folder};
}

RunConfig config_of(const VerifyOptions& options, const std::string& workload) {
  RunConfig config = unchecked_config(options, workload);
  RunConfig general =
      config;  // a recipe may set the form of the norm that a layout or a grid needs
  general.layouts = {LayoutKind::contract};
  general.grids.clear();
  try {
    validate(general);
  } catch (const Error& error) {
    if (workload != recorded_workload || options.config_file.empty()) throw;
    throw Error(error.code(), std::string(error.what()) + "; settings that " + options.config_file +
                                  " does not have are those of " + options.gradients);
  }
  if (workload == recorded_workload) check_recorded(config, options.gradients);
  for (const std::string& world : config.worlds) parse_world(world);
  return config;
}

std::vector<CaseSpec> cases_of(const VerifyOptions& options, const std::string& workload) {
  const RunConfig config = config_of(options, workload);
  const bool default_windows = has_default_windows(options);
  std::vector<CaseSpec> cases;
  std::optional<CaseSpec> refused;
  check_grids(config);
  const auto add_steps = [&](const std::string& recipe, DType dtype,
                             const ImplementationMode& implementation, const WorldSpec& world) {
    for (const int stage : config.stages) {
      for (const std::int64_t bucket : config.bucket_numels) {
        for (const int threads : config.omp_threads) {
          for (const ParallelConfig& place : places_of(config, world)) {
            // Only device buffers have another transport.
            if (implementation.implementation.space == Space::host &&
                place.transport != Transport::copies)
              continue;
            // A foreign step has no 8-bit parameters: an error only if a recipe asks for them.
            if (has_scales(dtype) && !makes_scales(implementation.implementation) &&
                options.recipes.empty())
              continue;
            // Native sums promise no bits, so they can only be judged phase by phase.
            const bool native = place.grad_sum == GradSum::native;
            const bool whole =
                implementation.implementation.foreign && implementation.mode == Mode::whole;
            if (native && (whole || !implementation.implementation.runs_in(Mode::lockstep)))
              continue;
            const Mode mode = native ? Mode::lockstep : implementation.mode;
            CaseSpec one{
                workload, recipe, implementation.implementation, stage, world, dtype, mode, bucket,
                threads,  place};
            if (default_windows && !can_share(one)) one.place.windows = Windows::off;
            if (shares_offloaded_grads(one))
              refused = one;
            else
              cases.push_back(one);
          }
        }
      }
    }
  };
  const std::vector<std::string> recipes = recipes_of(options, workload, config);
  const bool own =
      workload != recorded_workload && config.dtypes == workload_defaults(workload).dtypes;
  for (const std::string& recipe : recipes) {
    RunConfig under = recipe_config(options, workload, config, recipe);
    under.dtypes = dtypes_of(recipe, config.dtypes, own);
    if (!under.dtypes.empty()) validate(under);
  }
  // Only now: initializing a GPU takes a second, and errors in names are reported before.
  const std::vector<ImplementationMode> implementations = implementation_modes(options);
  check_device_worlds(config, options, implementations);
  for (const std::string& recipe : recipes) {
    for (const DType dtype : dtypes_of(recipe, config.dtypes, own)) {
      for (const ImplementationMode& implementation : implementations) {
        for (const std::string& world : config.worlds)
          add_steps(recipe, dtype, implementation, parse_world(world));
      }
    }
  }
  if (cases.empty() && refused) config_of(options, *refused);  // throws
  return cases;
}

std::vector<CaseSpec> cases_matching(const VerifyOptions& options, const std::string& pattern) {
  const std::vector<std::string> workloads = workloads_of(options);
  if (pattern.empty()) return cases_of(options, workloads.front());
  if (const auto exact = parse_case_id(pattern)) {
    check_workload(options, exact->workload);
    config_of(options, *exact);  // an invalid case is an error before valid ones run
    return {*exact};
  }
  // "byte_gpt" selects that workload, not every id that begins with it.
  const bool is_workload = pattern == recorded_workload || is_built_in(pattern);
  if (is_workload) check_workload(options, pattern);
  const std::vector<std::string> parts = id_parts(pattern);
  const bool begins_with_workload = parts.size() > 1 && is_built_in(parts[0]);
  const bool of_recording = parts.size() > 1 && parts[0] == recorded_workload;
  if (begins_with_workload || of_recording || parts.size() >= num_id_parts)
    check_training_parts(pattern);
  std::vector<CaseSpec> selected;
  for (const std::string& workload : workloads) {
    if (is_workload && workload != pattern) continue;
    if (begins_with_workload && workload != parts[0]) continue;
    for (const CaseSpec& spec : cases_of(narrowed(options, workload, pattern), workload)) {
      if (is_workload || matches(pattern, spec.id())) selected.push_back(spec);
    }
  }
  return selected;
}

}  // namespace zeroproof::verification
