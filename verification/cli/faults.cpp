#include <unistd.h>

#include <cstdio>

#include "verification/cli/commands.hpp"
#include "verification/faults/fault_plan.hpp"
#include "verification/report/progress.hpp"

namespace zeroproof::verification {
namespace {

int faults(const std::vector<std::string>& patterns, bool json, const std::string& inputs) {
  if (!inputs.empty()) {
    for (const std::string& path : write_fault_inputs(patterns, inputs))
      std::printf("%s\n", path.c_str());
    return 0;
  }
  FaultReport report;
  {
    ProgressBar bar;
    report = run_faults(
        patterns, [&](double fraction, const std::string& what) { bar.show(fraction, what); });
  }
  std::fputs((json ? to_json(report) : to_text(report, wants_colour(STDOUT_FILENO))).c_str(),
             stdout);
  return exit_code(report);
}

}  // namespace

void add_faults(CommandSet& commands) {
  const Command command = commands.add("faults",
                                       "plant real bugs into production and report which are "
                                       "caught, and how precisely (zeroproof-faults only)");
  const auto patterns = std::make_shared<std::vector<std::string>>();
  const auto json = std::make_shared<bool>(false);
  command.words("pattern", *patterns, "fault ids, or patterns with * and ? (default: every fault)");
  command.flag("--json", *json, "print JSON instead of the table");
  const auto inputs = std::make_shared<std::string>();
  command.option(
      "--inputs", *inputs,
      "folder for the settings and gradients of the cases, for verify and train: ID.toml, "
      "ID.safetensors; nothing is run");
  command.runs([patterns, json, inputs] { return faults(*patterns, *json, *inputs); });
}

}  // namespace zeroproof::verification
