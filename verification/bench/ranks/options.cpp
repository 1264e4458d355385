#include "verification/bench/ranks/options.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "common/layout/flat_layout.hpp"
#include "verification/bench/command_line.hpp"

namespace zeroproof::verification::bench {

std::int64_t RankOptions::numel(int world_size) const {
  const std::int64_t unit = layout_alignment * world_size;
  return std::max(unit, mib * (std::int64_t{1} << 20) / 4 / unit * unit);
}

std::string RankOptions::record_of(int job_ranks, const std::string& job_malloc) const {
  if (json.empty()) return {};
  return json + (ranks.size() > 1 ? "." + std::to_string(job_ranks) : "") +
         (malloc.size() > 1 ? "." + job_malloc : "");
}

std::optional<RankOptions> parse_rank_options(int argc, char** argv, int& exit_code) {
  RankOptions options;
  CLI::App app(
      "zeroproof-bench-ranks measures the sharded step of ranks that share this machine against the MPI "
      "library's "
      "collectives. It starts mpirun, or is started by it: mpirun -n 2 zeroproof-bench-ranks");
  app.set_version_flag("--version", "zeroproof-bench-ranks " ZP_VERSION);
  app.add_option("--rounds", options.rounds, "times every row is measured")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--mib", options.mib, "MiB of one rank's fp32 gradient (a rank needs about 30 times this)")
      ->check(CLI::Range(1, 1 << 13))
      ->capture_default_str();
  app.add_option("--ranks", options.ranks, "ranks of the jobs to start, one after another")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option(
         "--malloc", options.malloc,
         "jobs with malloc as installed, and warm: told to keep its memory, as a program that cares tells it")
      ->delimiter(',')
      ->check(CLI::IsMember({"installed", "warm"}))
      ->capture_default_str();
  app.add_option(
      "--json", options.json,
      "write the record to this file; of several jobs, to FILE.2.installed, FILE.2.warm and so on");
  if (!understood(app, "zeroproof-bench-ranks", argc, argv, exit_code)) return std::nullopt;
  return options;
}

}  // namespace zeroproof::verification::bench
