// zeroproof-bench-ranks: the sharded step of ranks that share a machine, against the MPI library's
// collectives in the same run.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "common/base/error.hpp"
#include "common/comm/mpi_communicator.hpp"
#include "verification/bench/command_line.hpp"
#include "verification/bench/ranks/launch.hpp"
#include "verification/bench/ranks/report.hpp"
#include "verification/bench/ranks/suite.hpp"
#include "verification/cli/program/exit_code.hpp"
#include "verification/training/ranks/mpi_environment.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification::bench;

void check_record(const std::ofstream& file, const RankOptions& options) {
  ZP_CHECK(file.good(), ErrorCode::io, options.json + " could not be written", "the record would be lost",
           "name a file in a folder that exists and is yours");
}

std::string library_text() {
  const char* copies = std::getenv("OMPI_MCA_btl_vader_single_copy_mechanism");
  return MpiLibrary::version() + (copies != nullptr ? std::string(", single copy ") + copies : "");
}

int run(const RankOptions& options, Communicator& comm) {
  std::ofstream record;
  if (!options.json.empty() && comm.rank() == 0) {
    record.open(options.json, std::ios::binary);
    check_record(record, options);  // before the long part
  }
  RankReport report;
  report.options = options;
  report.machine = this_machine();  // its load before the ranks add theirs
  report.machine.cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));  // a bound rank sees its own only
  report.library = library_text();
  report.malloc = malloc_settings();
  report.warm = malloc_is_warm();
  report.ranks = comm.world_size();
  report.numel = options.numel(comm.world_size());
  MpiLibrary library;
  RankData data(comm, library, report.numel);
  const ProductSteps products = product_steps(data);
  add_product_rows(report.rows, data, products);
  add_library_rows(report.rows, data);
  add_rank_limit_rows(report.rows, data);
  measure_ranks(report.rows, options.rounds, comm);
  report.checks = check_ranks(data, products, products.front()->steps());
  if (comm.rank() == 0) std::fputs(to_text(report).c_str(), stdout);
  if (record.is_open()) {
    record << to_json(report) << std::flush;
    check_record(record, options);
  }
  return report.ok() ? 0 : 1;
}

int run_rank(int argc, char** argv, const RankOptions& options) {
  MpiSession session(&argc, &argv);
  const std::unique_ptr<Communicator> comm = make_mpi_communicator();
  try {
    return run(options, *comm);
  } catch (const Error& error) {
    std::fprintf(stderr, "zeroproof-bench-ranks: %s\n", error.what());
    session.set_exit_code(verification::exit_code_of(error));
    comm->abort(error.what());
    return verification::exit_code_of(error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return exit_status("zeroproof-bench-ranks", [&] {
    int exit_code = 0;
    const std::optional<RankOptions> options = parse_rank_options(argc, argv, exit_code);
    if (!options) return exit_code;
    return zeroproof::verification::inside_mpi_job() ? run_rank(argc, argv, *options) : launch_jobs(*options);
  });
}
