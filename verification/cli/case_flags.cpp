#include "verification/cli/case_flags.hpp"

#include <filesystem>

#include "common/base/error.hpp"
#include "verification/cases/config/flag_number.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cli/program/plant.hpp"
#include "verification/interfaces/files/dialect_call.hpp"
#include "verification/interfaces/plugin/plugin_candidate.hpp"
#include "verification/interfaces/plugin/plugin_ops.hpp"

namespace zeroproof::verification {
namespace {

template <class Number>
std::vector<Number> flag_numbers(const std::vector<std::string>& texts, const std::string& flag) {
  std::vector<Number> values;
  for (const std::string& text : texts) values.push_back(flag_number<Number>(text, flag));
  return values;
}

Implementation parse_implementation(const std::string& text) {
  std::vector<std::string> names;
  for (const Implementation implementation : all_implementations) {
    if (name(implementation) == text) return implementation;
    names.emplace_back(name(implementation));
  }
  fail(ErrorCode::config, "implementation '" + text + "' does not exist",
       "it selects the implementation to judge", suggestion(text, names));
}

Mode parse_mode(const std::string& text) {
  for (const Mode mode : all_modes) {
    if (name(mode) == text) return mode;
  }
  fail(ErrorCode::config, "mode '" + text + "' does not exist", "it selects how the two sides run",
       "use lockstep, free or whole");
}

template <class Choice>
void set_choices(const std::vector<std::string>& texts, const std::string& flag,
                 std::vector<Choice>& target) {
  if (texts.empty()) return;
  target.clear();
  for (const std::string& text : texts) target.push_back(parse_choice<Choice>(flag, text));
}

template <class Choice>
void set_choice(const std::string& text, const std::string& flag, Choice& target) {
  if (!text.empty()) target = parse_choice<Choice>(flag, text);
}

/// Lists of "on" and "off".
void set_switches(const std::vector<std::string>& texts, const std::string& flag,
                  const char* meaning, std::vector<bool>& target) {
  if (texts.empty()) return;
  target.clear();
  for (const std::string& text : texts) {
    ZP_CHECK(text == "on" || text == "off", ErrorCode::config, flag + " has '" + text + "'",
             meaning, "use on, off or both");
    target.push_back(text == "on");
  }
}

/// "host", "file" or "file:FOLDER", which is where all files of the run lie.
void set_offload_places(const std::vector<std::string>& texts, OffloadConfig& offload) {
  if (texts.empty()) return;
  offload.places.clear();
  for (const std::string& text : texts) {
    const std::string file = std::string(name(OffloadPlace::file)) + ":";
    const bool has_folder = text.rfind(file, 0) == 0;
    if (has_folder) offload.folder = text.substr(file.size());
    offload.places.push_back(has_folder ? OffloadPlace::file
                                        : parse_choice<OffloadPlace>("--offload-place", text));
  }
}

/// Errors: ErrorCode::config if there is no such plug-in.
void open_plugin(const CaseFlags& flags, VerifyOptions& options) {
  ZP_CHECK(!flags.plugin.empty() || flags.plugin_timeout.empty(), ErrorCode::config,
           "--plugin-timeout was given without --plugin", "it limits calls of a plug-in",
           "add --plugin FILE, or leave the flag out");
  const bool asked = std::find(options.implementations.begin(), options.implementations.end(),
                               Implementation::plugin) != options.implementations.end();
  ZP_CHECK(!flags.plugin.empty() || !asked, ErrorCode::config,
           "--impl plugin was given without --plugin", "it judges a plug-in", "add --plugin FILE");
  ZP_CHECK(!flags.plugin.empty() || flags.accept.empty(), ErrorCode::config,
           "--accept was given without --plugin", "built-in implementations are compared bitwise",
           "add --plugin FILE, or leave the flag out");
  if (flags.plugin.empty()) return;
  PluginLimits limits;
  if (!flags.plugin_timeout.empty())
    limits.seconds = flag_number<double>(flags.plugin_timeout, "--plugin-timeout");
  ZP_CHECK(limits.seconds > 0 && limits.seconds <= 86400, ErrorCode::config,
           "--plugin-timeout is " + flags.plugin_timeout, "expected a time in seconds",
           "use 0.1 to 86400");
  constexpr std::string_view dialect = "dialect:";
  const bool of_dialect = flags.accept.rfind(dialect, 0) == 0;
  ZP_CHECK(
      flags.accept.empty() || flags.accept == "bits" || flags.accept == "any-order" || of_dialect,
      ErrorCode::config, "--accept is '" + flags.accept + "'",
      "it selects how results of a plug-in are compared", "use bits, any-order, or dialect:NAME");
  options.any_order = flags.accept == "any-order";
  if (of_dialect) options.expectation = dialect_expectation(flags.accept.substr(dialect.size()));
  ZP_CHECK(flags.fault.empty() && flags.blind.empty(), ErrorCode::config,
           (flags.blind.empty() ? "--fault" : "--blind") + std::string(" was given with --plugin"),
           "faults are planted in the implementations of this program", "leave one of the two out");
  const auto plugin = std::make_shared<Plugin>(flags.plugin, limits);
  options.plugin = plugin_candidate(plugin);
  options.plugin_operates = plugin->has_operations();
  options.plugin_steps = plugin->makes_steps();
  use_in_steps(plugin);
}

/// Settings of the command line, applied over defaults and configuration file.
void apply(const CaseFlags& flags, RunConfig& config) {
  if (!flags.text.empty()) config.text = flags.text;
  if (!flags.seed.empty()) config.seed = flag_number<std::uint64_t>(flags.seed, "--seed");
  if (!flags.steps.empty()) config.steps = flag_number<std::int64_t>(flags.steps, "--steps");
  if (!flags.micro_batches.empty()) {
    config.micro_batches = flag_number<std::int64_t>(flags.micro_batches, "--micro-batches");
  }
  if (!flags.comm_timeout.empty())
    config.comm_timeout_s = flag_number<double>(flags.comm_timeout, "--comm-timeout");
  if (!flags.worlds.empty()) config.worlds = flags.worlds;
  if (!flags.stages.empty()) config.stages = flag_numbers<int>(flags.stages, "--stage");
  if (!flags.buckets.empty())
    config.bucket_numels = flag_numbers<std::int64_t>(flags.buckets, "--bucket");
  if (!flags.threads.empty()) config.omp_threads = flag_numbers<int>(flags.threads, "--threads");
  set_choices(flags.orders, "--order", config.orders);
  set_choices(flags.layouts, "--layout", config.layouts);
  set_choices(flags.grad_sums, "--sum", config.grad_sums);
  set_choices(flags.windows, "--windows", config.windows);
  set_choices(flags.transport, "--transport", config.transport);
  if (!flags.grids.empty()) config.grids = flags.grids;
  if (!flags.instances.empty()) config.instances = flag_number<int>(flags.instances, "--instances");
  if (!flags.persistent_numel.empty()) {
    config.persistent_numel = flag_number<std::int64_t>(flags.persistent_numel, "--persistent");
  }
  if (flags.overlap) config.overlap = true;
  if (!flags.offloads.empty())
    config.offload.fractions = flag_numbers<double>(flags.offloads, "--offload");
  set_choices(flags.offload_orders, "--offload-order", config.offload.orders);
  set_offload_places(flags.offload_places, config.offload);
  if (!flags.offload_chunks.empty())
    config.offload.chunk_numels =
        flag_numbers<std::int64_t>(flags.offload_chunks, "--offload-chunk");
  set_switches(flags.offload_overlaps, "--offload-overlap",
               "it selects whether copies of chunks overlap with updates", config.offload.overlaps);
  set_switches(flags.offload_grads, "--offload-grads",
               "it selects whether the gradient sum of offloaded elements is offloaded too",
               config.offload.grads);
  set_choice(flags.exp_avg_dtype, "--exp-avg-dtype", config.state_formats.exp_avg);
  set_choice(flags.exp_avg_sq_dtype, "--exp-avg-sq-dtype", config.state_formats.exp_avg_sq);
  set_choice(flags.master_dtype, "--master-dtype", config.state_formats.master);
  if (flags.dtypes.empty()) return;
  config.dtypes.clear();
  for (const std::string& dtype : flags.dtypes) config.dtypes.push_back(parse_param_dtype(dtype));
}

/// Flags that change the computation of a case and are not part of its id.
std::vector<std::string> replay_flags(const CaseFlags& flags) {
  std::vector<std::string> words;
  for (const auto& [flag, value] :
       {std::pair{"--config", &flags.config_file}, std::pair{"--text", &flags.text},
        std::pair{"--gradients", &flags.gradients}, std::pair{"--seed", &flags.seed},
        std::pair{"--steps", &flags.steps}, std::pair{"--micro-batches", &flags.micro_batches},
        std::pair{"--comm-timeout", &flags.comm_timeout}, std::pair{"--norm", &flags.norm},
        std::pair{"--max-norm", &flags.max_norm},
        std::pair{"--exp-avg-dtype", &flags.exp_avg_dtype},
        std::pair{"--exp-avg-sq-dtype", &flags.exp_avg_sq_dtype},
        std::pair{"--master-dtype", &flags.master_dtype}, std::pair{"--plugin", &flags.plugin},
        std::pair{"--plugin-timeout", &flags.plugin_timeout}, std::pair{"--accept", &flags.accept},
        std::pair{"--fault", &flags.fault}, std::pair{"--blind", &flags.blind}}) {
    if (value->empty()) continue;
    const std::string_view word = flag;
    const bool file =
        word == "--config" || word == "--text" || word == "--gradients" || word == "--plugin";
    words.emplace_back(flag);
    words.push_back(file ? std::filesystem::absolute(*value).string()
                         : *value);  // it may run in another folder
  }
  for (const std::string& place : flags.offload_places) {  // the folder is no part of an id
    if (place.find(':') == std::string::npos) continue;
    words.insert(words.end(), {"--offload-place", place});
  }
  return words;
}

}  // namespace

std::shared_ptr<CaseFlags> add_case_flags(const Command& command) {
  auto flags = std::make_shared<CaseFlags>();
  command.words(
      "pattern", flags->patterns,
      "case ids, or patterns with * and ?; a word without them matches every id that contains it. "
      "'op/*' compares single operations, 'lbfgs/*' runs of L-BFGS, 'resume/*' runs that are "
      "resumed on other ranks, 'controls/*' legal differences (default: all cases of byte_gpt)");
  command.list(
      "--recipe", flags->recipes,
      "variations of the step: adamw, adam, sgd, sgd_ema, ... (zeroproof list --recipes), and with "
      "settings adamw+amsgrad:on+state:1001 (zeroproof list --settings)");
  command.list(
      "--impl", flags->implementations,
      "host, host-fused, device, device-fused, device-graph, plugin (default: all that run here; "
      "with --plugin only the plug-in)");
  command.list("--mode", flags->modes,
               "lockstep, free, whole (default: lockstep; fused ones free, device-graph whole; "
               "plug-ins: the modes that they export)");
  command.list(
      "--world", flags->worlds,
      "self, threads:N, mpi:N; nccl:N, on devices: processes that communicate through NCCL");
  command.list("--stage", flags->stages, "ZeRO stages 0, 1, 2, 3");
  command.list("--dtype", flags->dtypes, "parameter dtype: bf16, fp16, fp32, e4m3, e5m2");
  command.list("--bucket", flags->buckets, "bucket sizes in elements, multiples of 1024");
  command.list("--threads", flags->threads, "OpenMP threads per rank, 0 to choose");
  command.list("--order", flags->orders,
               "assignment of micro-batches to ranks: by_stage, contiguous, strided");
  command.list("--layout", flags->layouts,
               "ownership layout: contract, megatron, deepspeed_flat, deepspeed_param, fsdp2, "
               "greedy (layouts other than contract need a norm other than chunk1024)");
  command.list("--sum", flags->grad_sums,
               "summation of micro-batch gradients: tree, binned, native (compared within bounds)");
  command.list("--windows", flags->windows,
               "ranks of one machine: off (messages), on (shared memory), params (also one "
               "shared copy of the parameters)");
  command.list("--transport", flags->transport,
               "between ranks on devices: copies (threads of one process), nccl");
  command.list(
      "--grid", flags->grids,
      "data x context x tensor parallel ranks, as in 2x1x4 (tensor parallel: as --layout)");
  command.option("--instances", flags->instances, "optimizer instances, each with its own state");
  command.option("--persistent", flags->persistent_numel,
                 "stage 3: tensors of at most this many elements stay whole on every rank");
  command.flag("--overlap", flags->overlap, "communicate while layers compute");
  command.list("--offload", flags->offloads,
               "fractions of a rank's elements, 0 to 1, whose master and moments are offloaded");
  command.list(
      "--offload-order", flags->offload_orders,
      "offloaded elements: flat, the first ones; tensors, whole tensors in param group order");
  command.list("--offload-place", flags->offload_places,
               "where they are stored: host, file, file:FOLDER (file: in the temporary folder)");
  command.list("--offload-chunk", flags->offload_chunks, "elements per copied and updated chunk");
  command.list("--offload-overlap", flags->offload_overlaps,
               "overlap copies of chunks with updates: on, off (default: on)");
  command.list("--offload-grads", flags->offload_grads,
               "offload the gradient sum of those elements too: on, off (default: off)");
  command.option("--norm", flags->norm, "form of the global norm: chunk1024, exact, inf, one");
  command.option(
      "--max-norm", flags->max_norm,
      "gradients are scaled down to this global norm (overrides the recipe); 0 never clips");
  command.option("--exp-avg-dtype", flags->exp_avg_dtype,
                 "storage type of exp_avg and momentum_buffer: fp32, bf16, fp16, e4m3 (rule R25)");
  command.option("--exp-avg-sq-dtype", flags->exp_avg_sq_dtype,
                 "the same for exp_avg_sq and max_exp_avg_sq");
  command.option("--master-dtype", flags->master_dtype,
                 "storage type of the master: fp32; bf16, the parameters themselves");
  command.option(
      "--cover", flags->cover,
      "rows of a covering array instead of cases: they contain every value of every setting "
      "(values), or every possible pair of values (pairs)");
  command.option("--cover-seed", flags->cover_seed, "seed of the array (default: 1)");
  command.option("--slice", flags->slice, "K/N: every N-th row of the array, from the K-th one on");
  command.option("--config", flags->config_file,
                 "TOML settings (verification/cases/config/defaults.toml shows all)");
  command.option("--text", flags->text,
                 "file to train on (default: a fixed copy of the project's notes)");
  command.option(
      "--gradients", flags->gradients,
      "safetensors file of recorded gradients to use instead (verification/cli/README.md, "
      "\"Your own gradients\")");
  command.option("--seed", flags->seed, "seed of initial parameters and data order");
  command.option("--steps", flags->steps, "training steps");
  command.option("--micro-batches", flags->micro_batches, "micro-batches per step, over all ranks");
  command.option("--comm-timeout", flags->comm_timeout, "seconds ranks wait for each other");
  command.option(
      "--jobs", flags->jobs,
      "cores that training cases may use (default: all cores available to this process)");
  command.option("--hostfile", flags->hostfile,
                 "host file for mpirun, which starts the ranks of worlds mpi:N and nccl:N "
                 "(default: ZP_HOSTFILE)");
  command.flag("--oversubscribe", flags->oversubscribe,
               "allow worlds mpi:N and nccl:N of more than 4 ranks per core");
  command.option("--plugin", flags->plugin,
                 "shared library with your own operations or whole steps, judged instead of the "
                 "implementations "
                 "(verification/interfaces/plugin/README.md)");
  command.option("--plugin-timeout", flags->plugin_timeout,
                 "seconds a call of a plug-in may take (default: 10)");
  command.option(
      "--accept", flags->accept,
      "how results of a plug-in are compared: bits; any-order, within the bound of a legal "
      "order of operations; or dialect:NAME, updates with the bits of another library "
      "(default: bits)");
  command.option("--fault", flags->fault, "plant a fault (only in build/zeroproof-faults)");
  return flags;
}

VerifyOptions options_from(const CaseFlags& flags) {
  check_fault(flags.fault);
  VerifyOptions options;
  options.patterns = flags.patterns;
  options.recipes = flags.recipes;
  for (const std::string& implementation : flags.implementations)
    options.implementations.push_back(parse_implementation(implementation));
  for (const std::string& mode : flags.modes) options.modes.push_back(parse_mode(mode));
  options.config_file = flags.config_file;
  options.hostfile = flags.hostfile;
  options.gradients = flags.gradients;
  ZP_CHECK(flags.gradients.empty() || flags.text.empty(), ErrorCode::config,
           "--text was given with --gradients", "recorded gradients have no text",
           "leave one of the two out");
  options.fault = flags.fault;
  open_plugin(flags, options);
  if (!flags.jobs.empty()) options.jobs = flag_number<int>(flags.jobs, "--jobs");
  ZP_CHECK(flags.jobs.empty() || (options.jobs >= 1 && options.jobs <= 1024), ErrorCode::config,
           "--jobs is " + flags.jobs, "expected a number of threads", "use 1 to 1024");
  if (!flags.norm.empty()) options.norm = parse_choice<NormForm>("--norm", flags.norm);
  if (!flags.max_norm.empty()) options.max_norm = flag_number<double>(flags.max_norm, "--max-norm");
  options.overrides = [flags](RunConfig& config) { apply(flags, config); };
  options.replay_flags = replay_flags(flags);
  return options;
}

}  // namespace zeroproof::verification
