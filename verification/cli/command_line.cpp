#include "verification/cli/command_line.hpp"

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "verification/cli/commands.hpp"
#include "verification/config/nearest.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* why = "the command line was not understood";

void add_commands(CLI::App& app, std::function<int()>& chosen) {
  add_verify(app, chosen);
  add_list(app, chosen);
  add_record(app, chosen);
  add_doctor(app, chosen);
  add_faults(app, chosen);
  add_explain(app, chosen);
  add_replay(app, chosen);
  add_plan(app, chosen);
  add_trace(app, chosen);
}

/// The first word must be a command or a flag of the program itself.
void require_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    if (names.back() == word) return;
  }
  if (word.rfind('-', 0) == 0) return;
  fail(ErrorCode::config, "'" + word + "' is no command", why,
       suggestion(word, names) + (nearest(word, names).empty() ? "" : " zeroproof --help lists them all"));
}

/// Flags of a command, as they are typed.
std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& flag : option->get_lnames()) flags.push_back("--" + flag);
  }
  return flags;
}

/// Words that are left over: the first misspelt flag, or else the first word.
[[noreturn]] void refuse_extras(const CLI::App& app, const std::string& message) {
  for (const CLI::App* command : app.get_subcommands()) {
    const std::vector<std::string> extras = command->remaining();
    const std::string help = "zeroproof " + command->get_name() + " --help";
    for (const std::string& word : extras) {
      if (word.rfind('-', 0) != 0) continue;
      const std::string flag = word.substr(0, word.find('='));
      const std::string near = nearest(flag, flags_of(*command));
      fail(ErrorCode::config, flag + " is no flag of zeroproof " + command->get_name(), why,
           (near.empty() ? "see " : "did you mean " + near + "? see ") + help);
    }
    if (!extras.empty()) {
      fail(ErrorCode::config,
           "'" + extras.front() + "' is more than zeroproof " + command->get_name() + " takes", why,
           "see " + help);
    }
  }
  fail(ErrorCode::config, message, why, "see zeroproof --help");
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app("zeroproof checks sharded optimizers, bit by bit, against a readable reference");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  std::function<int()> chosen;
  add_commands(app, chosen);
  if (argc > 1) require_command(app, argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ExtrasError& error) {
    refuse_extras(app, error.what());
  } catch (const CLI::ParseError& error) {
    fail(ErrorCode::config, error.what(), why, "see zeroproof --help");
  }
  return chosen();
}

}  // namespace zeroproof::verification
