#include "verification/bench/options.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>

#include "common/base/parallel_for.hpp"

namespace zeroproof::verification::bench {

std::optional<Options> parse_options(int argc, char** argv, int& exit_code) {
  Options options;
  CLI::App app("zeroproof-bench measures the host twins against the memory of this machine, in one process");
  app.set_version_flag("--version", "zeroproof-bench " ZP_VERSION);
  app.add_option("--rounds", options.rounds, "times every row is measured")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--mib", options.mib,
                 "MiB of gradient, master and moments (the program needs about 4 times this)")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "worker threads; default: all cores")
      ->check(CLI::Range(1, 4096));
  app.add_option("--json", options.json, "write the record to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    exit_code = app.exit(help);
    return std::nullopt;
  } catch (const CLI::CallForVersion& version) {
    exit_code = app.exit(version);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr,
                 "zeroproof-bench: %s (the command line was not understood); see zeroproof-bench --help\n",
                 error.what());
    exit_code = 2;
    return std::nullopt;
  }
  if (options.threads == 0) options.threads = available_cores();
  return options;
}

}  // namespace zeroproof::verification::bench
