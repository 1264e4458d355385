// zeroproof-bench: the speed of the host twins, as fractions of what this machine's memory does in the same
// run.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>

#include "common/base/error.hpp"
#include "verification/bench/measure/rounds.hpp"
#include "verification/bench/report.hpp"
#include "verification/bench/suite.hpp"
#include "verification/program/exit_code.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification::bench;

/// OpenMP reads its wait policy before main begins, and its default is to spin. The rows take turns between
/// two sets of threads, so a spinning worker would steal the time of the row that follows: start again with
/// workers that sleep.
void make_idle_workers_sleep(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  ::execv("/proc/self/exe",
          argv);  // returns only if that is impossible; the numbers are then worse, not wrong
}

void check_record(const std::ofstream& file, const Options& options) {
  ZP_CHECK(file.good(), ErrorCode::io, options.json + " could not be written", "the record would be lost",
           "name a file in a folder that exists and is yours");
}

int run(const Options& options) {
  std::ofstream record;
  if (!options.json.empty()) {
    record.open(options.json, std::ios::binary);
    check_record(record, options);  // before the long part
  }
  WorkerTeam team(options.threads);
  Data data(options.numel(), team);
  Report report;
  add_twin_rows(report.rows, data, options.threads);
  add_rule_rows(report.rows, data, options.threads);
  add_step_rows(report.rows, data, team, options.threads, report.step);
  add_reference_rows(report.rows, data);
  add_limit_rows(report.rows, data, team);
  measure(report.rows, options.rounds);

  report.options = options;
  report.machine = this_machine();
  report.numel = data.numel;
  report.checks = check_bits(data, report.step);
  std::fputs(to_text(report).c_str(), stdout);
  if (record.is_open()) {
    record << to_json(report) << std::flush;
    check_record(record, options);
  }
  return report.ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  make_idle_workers_sleep(argv);
  try {
    int exit_code = 0;
    const std::optional<Options> options = parse_options(argc, argv, exit_code);
    return options ? run(*options) : exit_code;
  } catch (const Error& error) {
    std::fprintf(stderr, "zeroproof-bench: %s\n", error.what());
    return verification::exit_code_of(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zeroproof-bench: %s (this should not happen); report it with the command line\n",
                 error.what());
    return 9;
  }
}
