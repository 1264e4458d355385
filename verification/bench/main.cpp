// zeroproof-bench: the speed of the host twins, as fractions of what this machine's memory does in the same
// run.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "common/base/error.hpp"
#include "verification/bench/command_line.hpp"
#include "verification/bench/measure/rounds.hpp"
#include "verification/bench/report.hpp"
#include "verification/bench/suite.hpp"

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

/// Its memory is given back before the product's rows ask for theirs.
void measure_kernels(const Options& options, WorkerTeam& team, Report& report) {
  require_memory("the kernel rows", 70.0 * static_cast<double>(options.numel()), "--mib or --numel");
  Data data(options.numel(), team);
  add_twin_rows(report.rows, data, options.threads);
  add_rule_rows(report.rows, data, options.threads);
  add_step_rows(report.rows, data, team, options.threads, report.step);
  add_reference_rows(report.rows, data);
  add_limit_rows(report.rows, data, team);
  measure(report.rows, options.kernel_rounds());
  report.numel = data.numel;
  report.machine = this_machine();  // with its memory, and how much of it lies in large pages
  report.checks = check_bits(data, report.step);
}

int run(const Options& options) {
  std::ofstream record;
  if (!options.json.empty()) {
    record.open(options.json, std::ios::binary);
    check_record(record, options);  // before the long part
  }
  Report report;
  report.options = options;
  WorkerTeam team(options.threads);
  if (options.kernels()) measure_kernels(options, team, report);
  if (options.product()) {
    report.product = measure_products(options.product_cases(), options.product_rounds(), team, options.save);
    for (const ProductResult& one : report.product)
      report.checks.insert(report.checks.end(), one.checks.begin(), one.checks.end());
  }
  if (options.sweep) {
    report.sweep = run_sweep(sweep_axes(options.product_numel(), options.bucket_numel, options.threads),
                             options.sweep_passes(), team);
    report.checks.insert(report.checks.end(), report.sweep.checks.begin(), report.sweep.checks.end());
  }
  if (!options.checkpoint.empty()) {
    report.machine = this_machine();  // its load before the ranks add theirs
    report.saves = measure_saves(options.save_cases(), options.product_rounds(), options.checkpoint);
    for (const SaveResult& one : report.saves)
      report.checks.insert(report.checks.end(), one.checks.begin(), one.checks.end());
  } else if (!options.kernels())
    report.machine = this_machine();
  if (!options.offload.empty()) {
    report.offload = measure_offload(options.offload_case(), options.product_rounds(), team, options.offload);
    for (const OffloadResult& one : report.offload)
      report.checks.insert(report.checks.end(), one.checks.begin(), one.checks.end());
  }
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
  return exit_status("zeroproof-bench", [&] {
    int exit_code = 0;
    const std::optional<Options> options = parse_options(argc, argv, exit_code);
    return options ? run(*options) : exit_code;
  });
}
