#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "verification/cli/commands.hpp"
#include "verification/cli/program/capabilities.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/cli/program/device_capabilities.hpp"
#include "verification/report/progress.hpp"
#include "verification/tools/quantize/yaml.hpp"

namespace zeroproof::verification {

namespace {

constexpr std::size_t columns = 80;
constexpr int name_columns = 17, state_columns = 5;

/// The machine's entries of reports, with a line for each of its devices.
std::vector<Capability> lines() {
  std::vector<Capability> all = capabilities();
  const auto device = std::ranges::find(all, std::string("cuda device"), &Capability::name);
  const std::vector<Capability> devices = device_capabilities();
  all.insert(all.erase(device), devices.begin(), devices.end());
  all.push_back({"yaml", reads_yaml(),
                 reads_yaml()
                     ? "zeroproof quantization reads rules"
                     : "built without yaml-cpp, so zeroproof quantization reads no rules; install "
                       "libyaml-cpp-dev and build with ZP_YAML=ON"});
  return all;
}

/// The detail in lines that end with a terminal's, under each other.
std::string in_columns(const std::string& detail) {
  const std::string indent(name_columns + 1 + state_columns + 2, ' ');
  const std::string text = wrapped({detail}, columns, indent);
  return text.substr(indent.size());
}

}  // namespace

std::string version_text() {
  return "zeroproof " ZP_VERSION ", numeric contract " + std::to_string(contract_version);
}

void add_doctor(CommandSet& commands) {
  const Command command =
      commands.add("doctor", "report what this build can check on this machine, with reasons");
  command.runs([] {
    const bool colour = wants_colour(STDOUT_FILENO);
    std::printf("%s\n%-*s %-*s  %s\n", version_text().c_str(), name_columns, "capability",
                state_columns, "state", "detail");
    for (const Capability& c : lines()) {
      const char* state = c.available ? "ok" : "OFF";
      const char* paint = !colour ? "" : c.available ? "\033[32m" : "\033[33m";
      std::printf("%-*s %s%-*s%s  %s", name_columns, c.name.c_str(), paint, state_columns, state,
                  colour ? "\033[0m" : "", in_columns(c.detail).c_str());
    }
    return 0;
  });
}

}  // namespace zeroproof::verification
