#pragma once
// The subcommands of a program and their flags; only command_set.cpp includes the parser library,
// which takes seconds to compile.

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace CLI {
class App;
}

namespace zeroproof::verification {

/// A subcommand during its description. The variables that it fills must live until the program has
/// run it.
class Command {
 public:
  Command(CLI::App& app, std::function<int()>& chosen) : app_(app), chosen_(chosen) {}

  /// A value after a flag, as in --seed 4; or by itself, if the name is no flag.
  void option(const std::string& name, std::string& value, const std::string& help) const;
  void required(const std::string& name, std::string& value, const std::string& help) const;
  /// Any number of values.
  void words(const std::string& name, std::vector<std::string>& values,
             const std::string& help) const;
  /// One value or more.
  void required_words(const std::string& name, std::vector<std::string>& values,
                      const std::string& help) const;
  /// Any number of values, also with commas between.
  void list(const std::string& name, std::vector<std::string>& values,
            const std::string& help) const;
  /// The only value of a list.
  void only(const std::string& name, std::vector<std::string>& values,
            const std::string& help) const;
  void flag(const std::string& name, bool& given, const std::string& help) const;
  /// One of flag(), option() and list(), by the type of the variable.
  template <class Target>
  void add(const std::string& name, Target& target, const std::string& help) const {
    if constexpr (std::is_same_v<Target, bool>) {
      flag(name, target, help);
    } else if constexpr (std::is_same_v<Target, std::string>) {
      option(name, target, help);
    } else {
      list(name, target, help);
    }
  }

  /// The action of this subcommand; it returns the exit code.
  void runs(const std::function<int()>& work) const;

 private:
  CLI::App& app_;
  std::function<int()>& chosen_;
};

/// Every subcommand of a program.
class CommandSet {
 public:
  CommandSet(const std::string& program, const std::string& version);
  ~CommandSet();
  CommandSet(const CommandSet&) = delete;
  CommandSet& operator=(const CommandSet&) = delete;

  Command add(const std::string& name, const std::string& help);

  /// Parses the words and runs the subcommand; returns the exit code, 0 after --help and --version.
  /// Without words prints the help on standard error and returns 2.
  /// Errors (ErrorCode::config): invalid words, naming the nearest command or flag; all errors of
  /// the subcommand.
  int run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  std::function<int()> chosen_;
};

}  // namespace zeroproof::verification
