// zeroproof: the command line.

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "common/base/error.hpp"
#include "verification/cli/commands.hpp"
#include "verification/exit_code.hpp"
#include "verification/mpi_job.hpp"
#include "verification/mpi_world.hpp"

namespace {

using namespace zeroproof;

/// OpenMP reads its wait policy before main begins, and its default is to spin. Ranks share the cores of one
/// machine here, so a spinning worker steals the time of the one it waits for: start again with workers that
/// sleep.
void make_idle_workers_sleep(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  ::execv("/proc/self/exe", argv);  // returns only if that is impossible; spinning is slow, not wrong
}

int run(int argc, char** argv) {
  CLI::App app("zeroproof checks sharded optimizers, bit by bit, against a readable reference");
  app.set_version_flag("--version", verification::version_text());
  app.require_subcommand(1);
  std::function<int()> chosen;
  verification::add_verify(app, chosen);
  verification::add_list(app, chosen);
  verification::add_record(app, chosen);
  verification::add_doctor(app, chosen);
  verification::add_faults(app, chosen);
  verification::add_explain(app, chosen);
  verification::add_replay(app, chosen);
  verification::add_plan(app, chosen);
  verification::add_trace(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "zeroproof: %s (the command line was not understood); see zeroproof --help\n",
                 error.what());
    return 2;
  }
  return chosen();
}

}  // namespace

int main(int argc, char** argv) {
  make_idle_workers_sleep(argv);
  try {
    std::unique_ptr<verification::MpiLife> mpi;
    if (verification::inside_mpi_job()) mpi = std::make_unique<verification::MpiLife>(&argc, &argv);
    try {
      const int code = run(argc, argv);
      if (mpi) mpi->set_exit_code(code);
      return code;
    } catch (const Error& error) {
      const std::string who = verification::inside_mpi_job()
                                  ? " [rank " + std::to_string(verification::mpi_job_rank()) + "]"
                                  : "";
      std::fprintf(stderr, "zeroproof%s: %s\n", who.c_str(), error.what());
      if (mpi) mpi->set_exit_code(verification::exit_code_of(error));
      return verification::exit_code_of(error);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zeroproof: %s (an error nobody foresaw); report it with the command line\n",
                 error.what());
    return 9;
  }
}
