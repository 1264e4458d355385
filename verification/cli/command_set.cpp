#include "verification/cli/command_set.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* why = "the command line was not understood";

/// The first word must be a command or a flag of the program itself.
void require_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    if (names.back() == word) return;
  }
  if (word.rfind('-', 0) == 0) return;
  fail(ErrorCode::config, "'" + word + "' is no command", why,
       suggestion(word, names) +
           (nearest(word, names).empty() ? "" : " zeroproof --help lists them all"));
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
      const std::string hint = near.empty() ? "" : "did you mean " + near + "? ";
      fail(ErrorCode::config, flag + " is no flag of zeroproof " + command->get_name(), why,
           hint + "see " + help);
    }
    if (!extras.empty()) {
      fail(ErrorCode::config,
           "'" + extras.front() + "' is an unexpected argument of zeroproof " + command->get_name(),
           why, "see " + help);
    }
  }
  fail(ErrorCode::config, message, why, "see zeroproof --help");
}

/// A shell passes an empty value for an unset variable; it would have the effect of no flag.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) {
    for (const CLI::Option* option : command->get_options()) {
      const std::vector<std::string>& values = option->results();
      ZP_CHECK(option->get_lnames().empty() ||
                   std::find(values.begin(), values.end(), "") == values.end(),
               ErrorCode::config, "--" + option->get_lnames().front() + " was given an empty value",
               "it would have no effect", "give a value, or leave the flag out");
    }
  }
}

}  // namespace

void Command::option(const std::string& name, std::string& value, const std::string& help) const {
  app_.add_option(name, value, help);
}

void Command::required(const std::string& name, std::string& value, const std::string& help) const {
  app_.add_option(name, value, help)->required();
}

void Command::words(const std::string& name, std::vector<std::string>& values,
                    const std::string& help) const {
  app_.add_option(name, values, help);
}

void Command::required_words(const std::string& name, std::vector<std::string>& values,
                             const std::string& help) const {
  app_.add_option(name, values, help)->required();
}

void Command::list(const std::string& name, std::vector<std::string>& values,
                   const std::string& help) const {
  app_.add_option(name, values, help)->delimiter(',');
}

void Command::only(const std::string& name, std::vector<std::string>& values,
                   const std::string& help) const {
  app_.add_option_function<std::string>(
      name, [&values](const std::string& value) { values = {value}; }, help);
}

void Command::flag(const std::string& name, bool& given, const std::string& help) const {
  app_.add_flag(name, given, help);
}

void Command::runs(const std::function<int()>& work) const {
  app_.callback([&chosen = chosen_, work] { chosen = work; });
}

CommandSet::CommandSet(const std::string& program, const std::string& version)
    : app_(std::make_unique<CLI::App>(program)) {
  app_->set_version_flag("--version", version);
  app_->require_subcommand(1);
}

CommandSet::~CommandSet() = default;

Command CommandSet::add(const std::string& name, const std::string& help) {
  return {*app_->add_subcommand(name, help), chosen_};
}

int CommandSet::run(int argc, char** argv) {
  if (argc < 2) {
    app_->name(argv[0]);
    std::fputs(app_->help().c_str(), stderr);
    return 2;
  }
  require_command(*app_, argv[1]);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app_->exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app_->exit(version);
  } catch (const CLI::ExtrasError& error) {
    refuse_extras(*app_, error.what());
  } catch (const CLI::ParseError& error) {
    fail(ErrorCode::config, error.what(), why, "see zeroproof --help");
  }
  refuse_empty_values(*app_);
  return chosen_();
}

}  // namespace zeroproof::verification
