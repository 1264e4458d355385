// zeroproof-bench: the speed of the production path, against the limits of this machine in the same run.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/parallel_for.hpp"
#include "common/layout/flat_layout.hpp"
#include "verification/bench/measurements.hpp"
#include "verification/cli/program/exit_code.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification::bench;

constexpr std::int64_t most_numel = std::int64_t{1} << 36;

/// An invalid command line ends with 2 and one sentence.
const CLI::Validator multiple_of_1024(
    [](const std::string& text) {
      return std::atoll(text.c_str()) % layout_alignment == 0
                 ? ""
                 : text + " is no multiple of 1024 (a chunk)";
    },
    "MULTIPLE OF 1024");

/// OpenMP reads its wait policy before main begins, and its default is to spin. The rows alternate between two sets of
/// threads, so a spinning worker would take time from the row that follows: start again with workers that sleep.
void make_idle_workers_sleep(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  ::execv("/proc/self/exe",
          argv);  // returns only on failure; the numbers are then worse, not wrong
}

void add_rounds(CLI::App& app, Options& o, const char* help = "times every row is measured") {
  app.add_option("--rounds", o.rounds, help)->check(CLI::Range(1, 10000))->capture_default_str();
  app.add_option("--json", o.json, "write the record to this file");
}

CLI::Option* add_numel(CLI::App& app, Options& o, const char* help) {
  auto* numel =
      app.add_option("--numel", o.numel, help)->check(CLI::Range(std::int64_t{1}, most_numel));
  return o.numel.empty() ? numel : numel->capture_default_str();
}

void add_product(CLI::App& app, Options& o) {
  add_numel(app, o, "parameters")->expected(1);
  app.add_option("--threads", o.threads, "worker threads")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--bucket", o.bucket_numel, "elements reduced together")
      ->check(CLI::Range(layout_alignment, most_numel))
      ->check(multiple_of_1024)
      ->capture_default_str();
}

template <class T>
CLI::Option* add_list(CLI::App& app, const char* flag, std::vector<T>& values, const char* help) {
  auto* option = app.add_option(flag, values, help)->delimiter(',');
  return values.empty() ? option : option->capture_default_str();
}

/// One subcommand: its defaults, its flags and the measurement.
struct Command {
  Options defaults;
  const char* help;
  std::function<void(CLI::App&, Options&)> add_flags;
  std::function<int(const Options&)> run;
};

[[maybe_unused]] int not_built(const char* what, const char* hint) {
  fail(ErrorCode::unavailable, std::string("this program was built without ") + what,
       "the subcommand needs it", hint);
}

std::vector<Command> commands(char** argv) {
  const auto on_host = [argv](void measure(const Options&, Report&)) {
    return [argv, measure](const Options& options) {
      make_idle_workers_sleep(argv);
      return reported(options, true, measure);
    };
  };
  const int cores = available_cores();
  const std::int64_t usual = std::int64_t{1} << 24;
  std::vector<Command> all;
  all.push_back(
      {{.command = "kernels", .rounds = 15, .mib = 512, .threads = cores},
       "operations on the host and the whole step, against the memory",
       [](CLI::App& app, Options& o) {
         auto* mib = app.add_option("--mib", o.mib,
                                    "MiB of gradient, master and moments (rows need 4 times this)");
         mib->check(CLI::Range(1, 1 << 20))->capture_default_str();
         add_numel(app, o, "elements instead, a multiple of 16384")->expected(1)->excludes(mib);
         app.add_option("--threads", o.threads, "worker threads")
             ->check(CLI::Range(1, 4096))
             ->capture_default_str();
         add_rounds(app, o);
       },
       on_host(measure_kernels)});
  all.push_back(
      {{.command = "product", .numel = {usual}, .threads = cores},
       "whole steps of the optimizer in one process, against the operations they consist of",
       [](CLI::App& app, Options& o) {
         add_product(app, o);
         add_list(app, "--micro-batches", o.micro_batches,
                  "such as 1,16; each with each of the next three")
             ->check(CLI::Range(1, 4096));
         add_list(app, "--tensors", o.tensors, "tensors the parameters are split into")
             ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
         add_list(app, "--stages", o.stages, "ZeRO stages")->check(CLI::Range(0, 3));
         add_list(app, "--grads", o.grads, "fp32, bf16")->check(CLI::IsMember({"fp32", "bf16"}));
         app.add_option("--save", o.save,
                        "write inputs and results of the one row to this safetensors file");
         add_rounds(app, o);
       },
       on_host(measure_product)});
  all.push_back({{.command = "muon", .threads = cores},
                 "whole steps of a small transformer with the rule muon, and its matrix products",
                 [](CLI::App& app, Options& o) {
                   app.add_option("--threads", o.threads, "worker threads")
                       ->check(CLI::Range(1, 4096))
                       ->capture_default_str();
                   add_numel(app, o,
                             "instead, compare so many results of newton_schulz with the "
                             "reference, for every set, form, kind of factors and floor")
                       ->expected(1);
                   app.add_option("--save", o.save,
                                  "write inputs and results of two steps to this safetensors file");
                   add_rounds(app, o);
                 },
                 on_host(measure_muon)});
  all.push_back(
      {{.command = "sweep", .rounds = 3, .numel = {usual}, .threads = cores},
       "the step over parameters, tensors, micro-batches, buckets and ranks: is it a straight line",
       [](CLI::App& app, Options& o) {
         add_product(app, o);
         add_rounds(app, o, "passes over every axis");
       },
       on_host(measure_sweep)});
  all.push_back({{.command = "checkpoint",
                  .numel = {std::int64_t{1} << 25},
                  .threads = cores,
                  .ranks = {1, 2}},
                 "checkpoints that are saved into a folder, and removed, against the disk",
                 [](CLI::App& app, Options& o) {
                   app.add_option("FOLDER", o.folder, "where they are written")->required();
                   add_product(app, o);
                   add_list(app, "--ranks", o.ranks, "ranks that save, threads of one process")
                       ->check(CLI::Range(1, 256));
                   add_rounds(app, o);
                 },
                 on_host(measure_checkpoint)});
  all.push_back({{.command = "offload", .numel = {usual}, .threads = cores},
                 "steps with state in memory of the host and in a file in a folder",
                 [](CLI::App& app, Options& o) {
                   app.add_option("FOLDER", o.folder, "where the file is made")->required();
                   add_product(app, o);
                   add_rounds(app, o);
                 },
                 on_host(measure_offload)});
  all.push_back({
    {.command = "ranks", .mib = 64, .ranks = {2, 4}, .malloc = {"installed", "warm"}},
        "the sharded step of ranks that share this machine, against the MPI library's collectives; "
        "starts "
        "mpirun, or is started by it: mpirun -n 2 zeroproof-bench ranks",
        [](CLI::App& app, Options& o) {
          app.add_option("--mib", o.mib,
                         "MiB of one rank's fp32 gradient (a rank needs 30 times this)")
              ->check(CLI::Range(1, 1 << 13))
              ->capture_default_str();
          add_list(app, "--ranks", o.ranks, "ranks of the jobs to start, one after another")
              ->check(CLI::Range(1, 1024));
          add_list(app, "--malloc", o.malloc,
                   "jobs with malloc as installed, and warm: it keeps its memory")
              ->check(CLI::IsMember({"installed", "warm"}));
          add_rounds(app, o);
          app.footer(
              "The record of one of several jobs is FILE.2.installed, FILE.2.warm and so on.");
        },
#if defined(ZP_HAVE_MPI)
        measure_ranks
#else
        [](const Options&) { return not_built("MPI", "install libopenmpi-dev and build it again"); }
#endif
  });
  all.push_back({
    {.command = "device",
     .rounds = 15,
     .numel = {std::int64_t{1} << 26, std::int64_t{1} << 30},
     .ranks = {2, 4},
     .rows = {"kernels", "steps", "small", "ranks"}},
        "kernels and whole steps on a device, against its memory",
        [](CLI::App& app, Options& o) {
          add_list(app, "--rows", o.rows,
                   "which: kernels, steps, small (a step that is small), ranks")
              ->check(CLI::IsMember({"kernels", "steps", "small", "ranks"}));
          add_numel(app, o, "elements of kernels and steps, one table each")
              ->delimiter(',')
              ->check(multiple_of_1024);
          for (const auto& [flag, value, help] :
               {std::tuple{"--small-numel", &o.small_numel,
                           "elements of the step whose host time is measured"},
                std::tuple{"--rank-numel", &o.rank_numel,
                           "elements of the model that ranks share"}}) {
            app.add_option(flag, *value, help)
                ->check(CLI::Range(layout_alignment, most_numel))
                ->check(multiple_of_1024)
                ->capture_default_str();
          }
          add_list(app, "--ranks", o.ranks, "ranks that share the device, one table each")
              ->check(CLI::Range(2, 64));
          add_rounds(app, o);
        },
#if defined(ZP_HAVE_DEVICE)
        [](const Options& options) { return reported(options, true, measure_device); }
#else
        [](const Options&) {
          return not_built("CUDA", "build it with nvcc, or run zeroproof-bench-sim");
        }
#endif
  });
  return all;
}

int run(int argc, char** argv) {
  CLI::App app(
      "zeroproof-bench measures the production path against the limits of this machine in the same "
      "run");
  app.set_version_flag("--version", "zeroproof-bench " ZP_VERSION);
  app.require_subcommand(1);
  std::vector<Command> all = commands(argv);
  for (Command& command : all)
    command.add_flags(*app.add_subcommand(command.defaults.command, command.help),
                      command.defaults);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr,
                 "zeroproof-bench: %s (the command line is invalid); see zeroproof-bench --help\n",
                 error.what());
    return 2;
  }
  for (const Command& command : all) {
    if (app.got_subcommand(command.defaults.command)) return command.run(command.defaults);
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    std::fprintf(stderr, "zeroproof-bench: %s\n", error.what());
    return verification::exit_code_of(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr,
                 "zeroproof-bench: %s (unexpected error); report it with the command line\n",
                 error.what());
    return 9;
  }
}
