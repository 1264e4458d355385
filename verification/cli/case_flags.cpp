#include "verification/cli/case_flags.hpp"

#include <algorithm>
#include <filesystem>
#include <random>
#include <type_traits>

#include "common/base/error.hpp"
#include "verification/cases/config/acceptance.hpp"
#include "verification/cases/config/flag_number.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cli/program/plant.hpp"
#include "verification/interfaces/files/dialect_call.hpp"
#include "verification/interfaces/plugin/plugin_candidate.hpp"
#include "verification/interfaces/plugin/plugin_ops.hpp"

namespace zeroproof::verification {
namespace {

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

/// A value of the type that a setting has.
template <class Value>
Value flag_value(const std::string& text, const std::string& flag) {
  if constexpr (std::is_same_v<Value, std::string>) {
    return text;
  } else if constexpr (std::is_same_v<Value, DType>) {
    return parse_param_dtype(text);
  } else if constexpr (std::is_same_v<Value, bool>) {
    ZP_CHECK(text == "on" || text == "off", ErrorCode::config, flag + " has '" + text + "'",
             flag == "--offload-grads"
                 ? "it selects whether the gradient sum of offloaded elements is offloaded too"
                 : "it selects whether copies of chunks overlap with updates",
             "use on, off or both");
    return text == "on";
  } else if constexpr (std::is_enum_v<Value>) {
    return parse_choice<Value>(flag, text);
  } else {
    return flag_number<Value>(text, flag);
  }
}

template <class Value>
void assign(const std::vector<std::string>& texts, const std::string& flag, Value& target) {
  target = flag_value<Value>(texts.front(), flag);
}

template <class Value>
void assign(const std::vector<std::string>& texts, const std::string& flag,
            std::vector<Value>& target) {
  target.clear();
  for (const std::string& text : texts) target.push_back(flag_value<Value>(text, flag));
}

/// CaseFlag::set of the setting config.*member, or of a member of that.
template <auto... members>
void set(const CaseFlag& flag, const std::vector<std::string>& texts, RunConfig& config) {
  assign(texts, flag.name, (config.*....*members));
}

/// "host", "file" or "file:FOLDER", which is where all files of the run lie.
void set_offload_places(const CaseFlag& flag, const std::vector<std::string>& texts,
                        RunConfig& config) {
  OffloadConfig& offload = config.offload;
  offload.places.clear();
  for (const std::string& text : texts) {
    const std::string file = std::string(name(OffloadPlace::file)) + ":";
    const bool has_folder = text.rfind(file, 0) == 0;
    if (has_folder) offload.folder = text.substr(file.size());
    offload.places.push_back(has_folder ? OffloadPlace::file
                                        : parse_choice<OffloadPlace>(flag.name, text));
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
  ZP_CHECK(!flags.plugin.empty() || (flags.second_seed.empty() && flags.declined.empty()),
           ErrorCode::config,
           (flags.declined.empty() ? "--second-seed" : "--declined") +
               std::string(" was given without --plugin"),
           "only plug-ins decline calls and get a second seed",
           "add --plugin FILE, or leave the flag out");
  if (flags.plugin.empty()) return;
  options.second_seed = flags.second_seed.empty()
                            ? std::uint64_t{1} << 32 | std::random_device{}()
                            : flag_number<std::uint64_t>(flags.second_seed, "--second-seed");
  ZP_CHECK(flags.declined.empty() || flags.declined == "mistrust" || flags.declined == "accept",
           ErrorCode::config, "--declined is '" + flags.declined + "'",
           "it decides on cases of which a plug-in declines much", "use mistrust or accept");
  options.accepts_declined = flags.declined == "accept";
  PluginLimits limits;
  if (!flags.plugin_timeout.empty())
    limits.seconds = flag_number<double>(flags.plugin_timeout, "--plugin-timeout");
  ZP_CHECK(limits.seconds > 0 && limits.seconds <= 86400, ErrorCode::config,
           "--plugin-timeout is " + flags.plugin_timeout, "expected a time in seconds",
           "use 0.1 to 86400");
  const Acceptance accepted = acceptance_of(flags.accept, "--accept", AcceptedDialects::yes);
  options.any_order = accepted.any_order;
  options.fp32_powers = accepted.fp32_powers;
  if (!accepted.dialect.empty()) options.expectation = dialect_expectation(accepted.dialect);
  ZP_CHECK(flags.fault.empty() && flags.blind.empty(), ErrorCode::config,
           (flags.blind.empty() ? "--fault" : "--blind") + std::string(" was given with --plugin"),
           "faults are planted in the implementations of this program", "leave one of the two out");
  const auto plugin = std::make_shared<Plugin>(flags.plugin, limits);
  options.plugin = plugin_candidate(plugin);
  options.plugin_operates = plugin->has_operations();
  options.plugin_steps = plugin->makes_steps();
  use_in_steps(plugin);
}

/// Flags that change the computation of a case and are not part of its id.
std::vector<std::string> replay_flags(const CaseFlags& flags) {
  using enum CaseFlag::Replay;
  std::vector<std::string> words;
  for (const CaseFlag::Replay place : {run, optimizer, candidate}) {
    for (const CaseFlag& flag : case_flags()) {
      if (flag.replay != place) continue;
      for (const std::string& value : flag.values(flags)) {
        words.emplace_back(flag.name);
        words.push_back(flag.is_file ? std::filesystem::absolute(value).string()
                                     : value);  // it may run in another folder
      }
    }
  }
  for (const std::string& place : flags.offload_places) {  // the folder is no part of an id
    if (place.find(':') == std::string::npos) continue;
    words.insert(words.end(), {"--offload-place", place});
  }
  return words;
}

std::vector<std::string> typed(const std::vector<std::string>& list) { return list; }
std::vector<std::string> typed(bool given) { return std::vector<std::string>(given ? 1 : 0, "on"); }
std::vector<std::string> typed(const std::string& text) {
  return std::vector<std::string>(text.empty() ? 0 : 1, text);
}

void add_flag(const Command& command, const CaseFlag& flag, CaseFlags& flags, const char* help,
              bool one_value) {
  const auto* list = std::get_if<std::vector<std::string> CaseFlags::*>(&flag.member);
  if (one_value && list != nullptr) {
    command.only(flag.name, flags.**list, help);
  } else {
    std::visit([&](auto member) { command.add(flag.name, flags.*member, help); }, flag.member);
  }
}

}  // namespace

std::vector<std::string> CaseFlag::values(const CaseFlags& flags) const {
  return std::visit([&](auto pointer) { return typed(flags.*pointer); }, member);
}

Span<const CaseFlag> case_flags() {
  using enum CaseFlag::Kind;
  using Replay = CaseFlag::Replay;
  constexpr unsigned runs = training | training_id | covering;
  constexpr unsigned trajectory = training | training_id | resume | expectation;
  constexpr unsigned faults = runs | op | lbfgs | resume | comm;
  constexpr unsigned anything = ~0U;
  static const CaseFlag table[] = {
      {"--recipe", &CaseFlags::recipes, training | expectation, nullptr,
       "variations of the step: adamw, adam, sgd, sgd_ema, ... (zeroproof list --recipes), and "
       "with settings adamw+amsgrad:on+state:1001 (zeroproof list --settings)"},
      {"--impl", &CaseFlags::implementations, training | op | lbfgs | covering, nullptr,
       "host, host-fused, device, device-fused, device-graph, plugin (default: all that run here; "
       "with --plugin only the plug-in)"},
      {"--mode", &CaseFlags::modes, training, nullptr,
       "lockstep, free, whole (default: lockstep; fused ones free, device-graph whole; "
       "plug-ins: the modes that they export)"},
      {"--world", &CaseFlags::worlds, training, set<&RunConfig::worlds>,
       "self, threads:N, threads:N+M (as on several hosts), mpi:N; nccl:N, on devices: processes "
       "that communicate through NCCL"},
      {"--stage", &CaseFlags::stages, training, set<&RunConfig::stages>, "ZeRO stages 0, 1, 2, 3"},
      {"--dtype", &CaseFlags::dtypes, training | expectation, set<&RunConfig::dtypes>,
       "parameter dtype: bf16, fp16, fp32, e4m3, e5m2"},
      {"--bucket", &CaseFlags::buckets, training, set<&RunConfig::bucket_numels>,
       "bucket sizes in elements, multiples of 1024"},
      {"--threads", &CaseFlags::threads, training, set<&RunConfig::omp_threads>,
       "OpenMP threads per rank, 0 to choose"},
      {"--order", &CaseFlags::orders, training, set<&RunConfig::orders>,
       "assignment of micro-batches to ranks: by_stage, contiguous, strided"},
      {"--layout", &CaseFlags::layouts, training, set<&RunConfig::layouts>,
       "ownership layout: contract, megatron, deepspeed_flat, deepspeed_param, fsdp2, "
       "greedy (layouts other than contract need a norm other than chunk1024)"},
      {"--sum", &CaseFlags::grad_sums, training | expectation, set<&RunConfig::grad_sums>,
       "summation of micro-batch gradients: tree, binned, native (compared within bounds)"},
      {"--windows", &CaseFlags::windows, training, set<&RunConfig::windows>,
       "ranks of one machine: on (shared memory, the default), params (also one shared copy "
       "of the parameters), off (messages)"},
      {"--transport", &CaseFlags::transport, training, set<&RunConfig::transport>,
       "between ranks on devices: copies (threads of one process), nccl"},
      {"--grid", &CaseFlags::grids, training, set<&RunConfig::grids>,
       "data x context x tensor parallel ranks, as in 2x1x4 (tensor parallel: as --layout)"},
      {"--instances", &CaseFlags::instances, training, set<&RunConfig::instances>,
       "optimizer instances, each with its own state"},
      {"--persistent", &CaseFlags::persistent_numel, training, set<&RunConfig::persistent_numel>,
       "stage 3: tensors of at most this many elements stay whole on every rank"},
      {"--overlap", &CaseFlags::overlap, training, set<&RunConfig::overlap>,
       "communicate while layers compute"},
      {"--offload", &CaseFlags::offloads, training,
       set<&RunConfig::offload, &OffloadConfig::fractions>,
       "fractions of a rank's elements, 0 to 1, whose master and moments are offloaded"},
      {"--offload-order", &CaseFlags::offload_orders, training,
       set<&RunConfig::offload, &OffloadConfig::orders>,
       "offloaded elements: flat, the first ones; tensors, whole tensors in param group order"},
      {"--offload-place", &CaseFlags::offload_places, training | training_id, set_offload_places,
       "where they are stored: host, file, file:FOLDER (file: in the temporary folder)"},
      {"--offload-chunk", &CaseFlags::offload_chunks, training,
       set<&RunConfig::offload, &OffloadConfig::chunk_numels>,
       "elements per copied and updated chunk"},
      {"--offload-overlap", &CaseFlags::offload_overlaps, training,
       set<&RunConfig::offload, &OffloadConfig::overlaps>,
       "overlap copies of chunks with updates: on, off (default: on)"},
      {"--offload-grads", &CaseFlags::offload_grads, training,
       set<&RunConfig::offload, &OffloadConfig::grads>,
       "offload the gradient sum of those elements too: on, off (default: off)"},
      {"--norm", &CaseFlags::norm, trajectory, nullptr,
       "form of the global norm: chunk1024, exact, inf, one", Replay::optimizer},
      {"--max-norm", &CaseFlags::max_norm, trajectory, nullptr,
       "gradients are scaled down to this global norm (overrides the recipe); 0 never clips",
       Replay::optimizer},
      {"--exp-avg-dtype", &CaseFlags::exp_avg_dtype, trajectory,
       set<&RunConfig::state_formats, &StateFormats::exp_avg>,
       "storage type of exp_avg and momentum_buffer: fp32, bf16, fp16, e4m3 (rule R25)",
       Replay::optimizer},
      {"--exp-avg-sq-dtype", &CaseFlags::exp_avg_sq_dtype, trajectory,
       set<&RunConfig::state_formats, &StateFormats::exp_avg_sq>,
       "the same for exp_avg_sq and max_exp_avg_sq", Replay::optimizer},
      {"--master-dtype", &CaseFlags::master_dtype, trajectory,
       set<&RunConfig::state_formats, &StateFormats::master>,
       "storage type of the master: fp32; bf16, the parameters themselves", Replay::optimizer},
      {"--cover", &CaseFlags::cover, covering | expectation, nullptr,
       "rows of a covering array instead of cases: they contain every value of every setting "
       "(values), every possible pair of values (pairs), or also every possible triple of settings "
       "that meet in one function (triples)"},
      {"--cover-seed", &CaseFlags::cover_seed, covering | expectation, nullptr,
       "seed of the array (default: 1)"},
      {"--slice", &CaseFlags::slice, covering | expectation, nullptr,
       "K/N: every N-th row of the array, from the K-th one on"},
      {"--config", &CaseFlags::config_file, anything & ~covering, nullptr,
       "TOML settings (verification/cases/config/defaults.toml shows all)", Replay::run, true},
      {"--text", &CaseFlags::text, runs | lbfgs | resume | expectation, set<&RunConfig::text>,
       "file to train on (default: a fixed copy of the project's notes)", Replay::run, true},
      {"--gradients", &CaseFlags::gradients, training | training_id | expectation, nullptr,
       "safetensors file of recorded gradients to use instead (verification/cli/README.md, "
       "\"Your own gradients\")",
       Replay::run, true},
      {"--seed", &CaseFlags::seed, anything, set<&RunConfig::seed>,
       "seed of initial parameters and data order", Replay::run},
      {"--steps", &CaseFlags::steps, runs | resume | expectation, set<&RunConfig::steps>,
       "training steps", Replay::run},
      {"--micro-batches", &CaseFlags::micro_batches, trajectory | lbfgs,
       set<&RunConfig::micro_batches>, "micro-batches per step, over all ranks", Replay::run},
      {"--comm-timeout", &CaseFlags::comm_timeout, runs | lbfgs | resume | comm,
       set<&RunConfig::comm_timeout_s>, "seconds ranks wait for each other", Replay::run},
      {"--jobs", &CaseFlags::jobs, runs, nullptr,
       "cores that training cases may use (default: all cores available to this process)"},
      {"--hostfile", &CaseFlags::hostfile, runs, nullptr,
       "host file for mpirun, which starts the ranks of worlds mpi:N and nccl:N (default: "
       "ZP_HOSTFILE)"},
      {"--oversubscribe", &CaseFlags::oversubscribe, runs, nullptr,
       "allow worlds mpi:N and nccl:N of more than 4 ranks per core"},
      {"--plugin", &CaseFlags::plugin, runs | op | expectation, nullptr,
       "shared library with your own operations or whole steps, judged instead of the "
       "implementations (verification/interfaces/plugin/README.md)",
       Replay::candidate, true},
      {"--plugin-timeout", &CaseFlags::plugin_timeout, runs | op | expectation, nullptr,
       "seconds a call of a plug-in may take (default: 10)", Replay::candidate},
      {"--accept", &CaseFlags::accept, runs | op | expectation, nullptr,
       "how results of a plug-in are compared: bits; any-order, within the bound of a legal "
       "order of operations (training cases: in lock-step); or, of operations, "
       "any-order,fp32-powers, also with powers of beta in fp32; dialect:NAME, updates with the "
       "bits of another library (default: bits)",
       Replay::candidate},
      {"--second-seed", &CaseFlags::second_seed, runs | op | expectation, nullptr,
       "seed of the second inputs, and of the second training run, that a plug-in gets (default: "
       "drawn for each run)"},
      {"--declined", &CaseFlags::declined, op | expectation, nullptr,
       "cases in which a plug-in declines a whole variant or range of sizes, or most elements: "
       "mistrust, accept (default: mistrust)",
       Replay::candidate},
      {"--fault", &CaseFlags::fault, faults, nullptr,
       "plant a fault (only in build/zeroproof-faults)", Replay::candidate},
      {"--blind", &CaseFlags::blind, faults, nullptr,
       "plant the N-th of the faults that this case can have, without naming it (only in "
       "build/zeroproof-faults); reveal N CASE prints its name",
       Replay::candidate},
  };
  return table;
}

const CaseFlag& case_flag(std::string_view name) {
  const auto flag =
      std::ranges::find_if(case_flags(), [&](const CaseFlag& one) { return name == one.name; });
  ZP_CHECK(flag != case_flags().end(), ErrorCode::internal, std::string(name) + " is no flag",
           "case_flags() has all of them", "add it there");
  return *flag;
}

std::shared_ptr<CaseFlags> add_case_flags(const Command& command, bool with_blind) {
  auto flags = std::make_shared<CaseFlags>();
  command.words(
      "pattern", flags->patterns,
      "case ids, or patterns with * and ?; a word without them matches every id that contains it. "
      "'op/*' compares single operations, 'lbfgs/*' runs of L-BFGS, 'resume/*' runs that are "
      "resumed on other ranks, 'comm/*' single collectives, 'controls/*' legal differences "
      "(default: all cases of byte_gpt)");
  for (const CaseFlag& flag : case_flags()) {
    if (with_blind || flag.name != std::string_view("--blind"))
      add_flag(command, flag, *flags, flag.help, false);
  }
  return flags;
}

void add_shared_flags(const Command& command, CaseFlags& flags, Span<const SharedFlag> shared,
                      bool one_value) {
  for (const SharedFlag& use : shared) {
    const CaseFlag& flag = case_flag(use.name);
    add_flag(command, flag, flags, use.help != nullptr ? use.help : flag.help, one_value);
  }
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
  options.overrides = [flags](RunConfig& config) {
    for (const CaseFlag& flag : case_flags()) {
      const std::vector<std::string> values = flag.values(flags);
      if (flag.set != nullptr && !values.empty()) flag.set(flag, values, config);
    }
  };
  options.replay_flags = replay_flags(flags);
  return options;
}

}  // namespace zeroproof::verification
