// zeroproof train: production alone, as a training job that can be ended and resumed.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "common/base/printable.hpp"
#include "verification/cases/experiment.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/cases/recorded.hpp"
#include "verification/cli/chosen_cases.hpp"
#include "verification/cli/commands.hpp"
#include "verification/cli/program/stop_request.hpp"
#include "verification/faults/catalogue.hpp"
#include "verification/report/progress.hpp"
#include "verification/report/report_files.hpp"
#include "verification/tools/train/dump/dump.hpp"
#include "verification/tools/train/job_text.hpp"
#include "verification/tools/train/rank_processes.hpp"
#include "verification/tools/train/training_identity.hpp"
#include "verification/tools/train/training_job.hpp"
#include "verification/training/case_run.hpp"
#include "verification/training/mpi_job.hpp"
#include "verification/training/ranks/mpi_environment.hpp"
#include "verification/training/ranks/mpi_launch.hpp"
#include "verification/training/ranks/mpi_world.hpp"
#include "verification/training/ranks/rank_notes.hpp"

namespace zeroproof::verification {
namespace {

struct TrainFlags {
  CaseFlags where;
  std::string workload, checkpoint, save_every, keep, dump, log;
  bool asynchronous = false, resume = false, allow_fallback = false;
};

std::int64_t count_of(const std::string& text, const std::string& flag) {
  if (text.empty()) return 0;
  std::size_t used = 0;
  long long value = -1;
  try {
    value = std::stoll(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  ZP_CHECK(used == text.size() && value >= 1 && value <= 1'000'000'000, ErrorCode::config,
           flag + " is '" + text + "'", "expected a number of steps or checkpoints",
           "use 1 to 1000000000");
  return value;
}

/// One value each; none: the first that the settings have.
CaseSpec spec_of(TrainFlags flags, VerifyOptions& options) {
  CaseFlags& where = flags.where;
  if (where.implementations.empty()) where.implementations = {"host"};
  if (where.gradients.empty())
    where.patterns = {flags.workload.empty() ? workload_names().front() : flags.workload};
  ZP_CHECK(where.gradients.empty() || flags.workload.empty(), ErrorCode::config,
           "--workload was given with --gradients", "the gradients are the workload",
           "leave one of the two out");
  if (where.gradients.empty())
    workload_defaults(where.patterns.front());  // throws for one that does not exist
  if (where.dtypes.empty()) {
    const VerifyOptions asked = options_from(where);
    const std::string workload =
        where.gradients.empty() ? where.patterns.front() : recorded_workload;
    const RunConfig config = config_of(asked, workload);
    const std::string recipe =
        where.recipes.empty() ? configured_recipe(config) : where.recipes.front();
    const std::vector<DType> dtypes = dtypes_of(recipe, config.dtypes, true);
    if (!dtypes.empty()) where.dtypes = {std::string(name(dtypes.front()))};
  }
  const ChosenCases chosen = choose_cases(where);
  for (const auto& [suite, ids] : chosen.selection.parts) {
    if (suite->name() != "training" || ids.empty()) continue;
    options = chosen.options;
    return *parse_case_id(ids.front());
  }
  fail(ErrorCode::config, "these settings describe no training run", "train needs one complete run",
       "zeroproof list shows all cases");
}

/// Refuses a fault of another suite before the first rank is created.
void check_fault_of_step(const std::string& fault) {
  const auto known = std::ranges::find(fault_catalogue(), fault, &Fault::id);
  ZP_CHECK(known == fault_catalogue().end() || known->phase.has_value(), ErrorCode::config,
           "the fault '" + fault + "' is one of L-BFGS", "a training job makes no step of L-BFGS",
           "zeroproof-faults verify 'lbfgs/*' --fault " + fault + " has it");
}

void check(const TrainFlags& flags) {
  const auto needs = [&](bool given, const char* flag, const std::string& other, const char* name) {
    ZP_CHECK(!given || !other.empty(), ErrorCode::config,
             std::string(flag) + " was given without " + name, "it needs a folder of checkpoints",
             std::string("add ") + name + " DIR, or leave it out");
  };
  needs(!flags.save_every.empty(), "--save-every", flags.checkpoint, "--checkpoint");
  needs(!flags.keep.empty(), "--keep", flags.checkpoint, "--checkpoint");
  needs(flags.asynchronous, "--async", flags.checkpoint, "--checkpoint");
  needs(flags.resume, "--resume", flags.checkpoint, "--checkpoint");
  check_fault_of_step(flags.where.fault);
  ZP_CHECK(!flags.allow_fallback || flags.resume, ErrorCode::config,
           "--allow-fallback was given without --resume", "no checkpoint is read",
           "add --resume, or leave it out");
}

/// A folder that has checkpoints is gone on with, or another one is taken: never begun again by mistake.
void check_folder(const TrainFlags& flags) {
  std::error_code ignored;
  if (flags.checkpoint.empty() || flags.resume ||
      !std::filesystem::is_directory(flags.checkpoint, ignored))
    return;
  const std::vector<std::int64_t> steps = CheckpointRoot(flags.checkpoint).steps();
  ZP_CHECK(
      steps.empty(), ErrorCode::config,
      flags.checkpoint + " has " + std::to_string(steps.size()) + " checkpoint" +
          (steps.size() == 1 ? "" : "s") + " already",
      std::string("a run from the beginning would replace ") + (steps.size() == 1 ? "it" : "them"),
      std::string("add --resume to continue with ") + (steps.size() == 1 ? "it" : "them") +
          ", or name another folder");
}

/// Runs this command again as the ranks of a job; their output goes to this program's output.
int start_job(const TrainFlags& flags, const CaseSpec& spec, const VerifyOptions& options,
              const StopRequest& stop) {
  RankProcesses job;
  job.words = mpirun_words(spec.world.size, options.hostfile);
  job.words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  std::ifstream line("/proc/self/cmdline", std::ios::binary);
  std::string word;
  std::getline(line, word, '\0');
  while (std::getline(line, word, '\0')) job.words.push_back(word);
  job.num_ranks = spec.world.size;
  job.comm_timeout_s = config_of(options, spec.workload).comm_timeout_s;
  job.here = mpi_jobs_run_here(options);
  job.remedy =
      flags.checkpoint.empty()
          ? "with --checkpoint DIR --save-every K the next run can continue from a checkpoint"
          : "--resume continues from the newest checkpoint, on any ranks";
  std::fflush(stdout);
  return run_rank_processes(job, stop);
}

int train(const TrainFlags& flags) {
  const StopRequest stop;
  check(flags);
  VerifyOptions options;
  const CaseSpec spec = spec_of(flags, options);
  const bool root = mpi_job_rank() == 0;
  if (!inside_mpi_job()) check_folder(flags);
  if (!inside_mpi_job() && !flags.dump.empty()) check_report_file(flags.dump);
  if (spec.world.has_processes() && !inside_mpi_job()) return start_job(flags, spec, options, stop);

  const Experiment experiment = experiment_of(options, spec);
  JobSettings settings{experiment, spec, training_identity(experiment, spec, options.gradients),
                       candidate_factory(spec.implementation, options.fault)};
  settings.omp_threads =
      spec.omp_threads > 0 ? spec.omp_threads : std::max(1, available_cores() / spec.world.size);
  settings.folder = flags.checkpoint;
  settings.save_every = count_of(flags.save_every, "--save-every");
  settings.keep = static_cast<int>(count_of(flags.keep, "--keep"));
  settings.mode = flags.asynchronous ? SaveMode::asynchronous : SaveMode::synchronous;
  settings.resume = flags.resume;
  settings.allow_fallback = flags.allow_fallback;
  settings.log =
      flags.log.empty() && !flags.checkpoint.empty() ? flags.checkpoint + "/log.jsonl" : flags.log;
  settings.dump = flags.dump;
  settings.stop = [&] { return stop.signal() != 0 || (root && RankNotes::asked_to_stop()); };

  JobResult result;
  {
    ProgressBar bar;
    const auto steps = static_cast<double>(experiment.config().steps);
    settings.on_start = [&](std::int64_t from, const std::string& checkpoint) {
      std::printf("%s\n%s%s\n", version_text().c_str(), described(experiment, spec).c_str(),
                  checkpoint.empty()
                      ? "from the beginning"
                      : ("from step " + std::to_string(from) + ": " + checkpoint).c_str());
      if (!options.fault.empty()) std::printf("planted: %s\n", options.fault.c_str());
      std::fflush(stdout);
    };
    settings.on_step = [&](const StepRecord& record) {
      bar.show(static_cast<double>(record.step) / steps, step_line(record));
    };
    settings.on_news = [&](const std::string& line) { bar.say({line}); };
    settings.on_damage = [](const std::string& line) {
      std::fprintf(stderr, "zeroproof: %s\n", line.c_str());
    };
    const auto world = spec.world.has_processes()
                           ? make_mpi_world(experiment.config().comm_timeout_s)
                           : make_local_world(spec.world, experiment.config().comm_timeout_s);
    ZP_CHECK(world->size() == spec.world.size, ErrorCode::config,
             "world " + spec.world.id() + " was requested in a job of " +
                 std::to_string(world->size()) + " ranks",
             "every rank is one process",
             "start it with mpirun -n " + std::to_string(spec.world.size));
    try {
      result = run_training_job(settings, *world);
    } catch (const Error& error) {
      const std::vector<RankFlight> flights = world->flights();
      const bool lost = error.code() == ErrorCode::timeout || error.code() == ErrorCode::comm;
      if (lost && !flights.empty())
        std::fprintf(stderr, "last collectives of the ranks:\n%s",
                     printable_lines(flights_text(flights)).c_str());
      throw;
    }
  }
  if (root) {
    std::fputs(job_text(experiment, result).c_str(), stdout);
    if (!flags.checkpoint.empty()) std::printf("checkpoints: %s\n", flags.checkpoint.c_str());
    if (!flags.dump.empty()) std::printf("dump: %s\n", flags.dump.c_str());
  }
  if (!result.stopped) return 0;
  if (stop.signal() != 0) return 128 + stop.signal();
  if (root) RankNotes::stopped();  // the process that started the job has the number of the signal
  return 0;
}

}  // namespace

void add_train(CommandSet& commands) {
  const Command command = commands.add(
      "train",
      "train with production alone, saving checkpoints; --resume continues from them on any ranks");
  const auto flags = std::make_shared<TrainFlags>();
  command.option("config", flags->where.config_file,
                 "TOML settings (verification/cases/config/defaults.toml shows all); of a list the "
                 "first value is taken");
  command.option("--checkpoint", flags->checkpoint, "folder of checkpoints, and of the run's log");
  command.option("--save-every", flags->save_every,
                 "steps between checkpoints (default: one at the end)");
  command.option("--keep", flags->keep, "checkpoints to keep after a save (default: all)");
  command.flag("--async", flags->asynchronous, "continue training while a checkpoint is written");
  command.flag("--resume", flags->resume,
               "continue from the newest checkpoint; from the beginning, if there is none");
  command.flag("--allow-fallback", flags->allow_fallback,
               "use an older checkpoint if the newest is damaged");
  command.option("--dump", flags->dump,
                 "safetensors file for the last master, state and parameters");
  command.option("--log", flags->log,
                 "file for the log, one line per step (default: DIR/log.jsonl)");
  command.option("--workload", flags->workload, workload_list() + " (default: byte_gpt)");
  constexpr SharedFlag shared[] = {
      {"--gradients", "safetensors file of recorded gradients to use instead"},
      {"--recipe", "variation of the step: adamw, adam, sgd, ... (zeroproof list --recipes)"},
      {"--impl", "host, host-fused, device, device-fused, device-graph (default: host)"},
      {"--world", "self, threads:N, mpi:N; nccl:N"},
      {"--stage", "ZeRO stage 0, 1, 2 or 3"},
      {"--dtype"},
      {"--bucket", "bucket size in elements, a multiple of 1024"},
      {"--threads"},
      {"--order"},
      {"--layout",
       "ownership layout: contract, megatron, deepspeed_flat, deepspeed_param, fsdp2, greedy"},
      {"--sum", "summation of micro-batch gradients: tree, binned"},
      {"--windows", "ranks of one machine: off, on, params"},
      {"--transport", "between ranks on devices: copies, nccl"},
      {"--grid", "data x context x tensor parallel ranks, as in 2x1x4"},
      {"--instances"},
      {"--persistent"},
      {"--overlap"},
      {"--offload",
       "fraction of a rank's elements, 0 to 1, whose master and moments are offloaded"},
      {"--offload-order", "which elements: flat, tensors"},
      {"--offload-place", "where they are stored: host, file, file:FOLDER"},
      {"--offload-chunk"},
      {"--offload-overlap", "overlap copies of chunks with updates: on, off"},
      {"--offload-grads", "offload the gradient sum of those elements too: on, off"},
      {"--norm"},
      {"--max-norm", "gradients are scaled down to this global norm; 0 never clips"},
      {"--exp-avg-dtype", "storage type of exp_avg and momentum_buffer: fp32, bf16, fp16, e4m3"},
      {"--exp-avg-sq-dtype"},
      {"--master-dtype", "storage type of the master: fp32, bf16"},
      {"--text", "file to train on"},
      {"--seed"},
      {"--steps", "training steps, from the beginning of the run"},
      {"--micro-batches"},
      {"--comm-timeout"},
      {"--fault"},
      {"--hostfile", "host file for mpirun (default: ZP_HOSTFILE)"},
      {"--oversubscribe", "allow worlds mpi:N of more than 4 ranks per core"}};
  add_shared_flags(command, flags->where, shared, true);
  command.runs([flags] { return train(*flags); });
}

}  // namespace zeroproof::verification
