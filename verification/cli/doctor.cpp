#include <unistd.h>

#include <cstdio>

#include "verification/cli/commands.hpp"
#include "verification/program/capabilities.hpp"
#include "verification/program/contract_version.hpp"
#include "verification/report/progress.hpp"

namespace zeroproof::verification {

std::string version_text() {
  return "zeroproof " ZP_VERSION ", numeric contract " + std::to_string(contract_version);
}

void add_doctor(CommandSet& commands) {
  const Command command =
      commands.add("doctor", "say what this build on this machine can check, and why not");
  command.runs([] {
    const bool colour = wants_colour(STDOUT_FILENO);
    std::printf("%s\n%-17s %-5s  %s\n", version_text().c_str(), "capability", "state", "detail");
    for (const Capability& c : capabilities()) {
      const char* state = c.available ? "ok" : "OFF";
      const char* paint = !colour ? "" : c.available ? "\033[32m" : "\033[33m";
      std::printf("%-17s %s%-5s%s  %s\n", c.name.c_str(), paint, state, colour ? "\033[0m" : "",
                  c.detail.c_str());
    }
    return 0;
  });
}

}  // namespace zeroproof::verification
