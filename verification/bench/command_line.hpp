#pragma once
// What the main functions of all benchmarks do.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>

#include "common/base/error.hpp"
#include "verification/cli/program/exit_code.hpp"

namespace zeroproof::verification::bench {

/// False if the program should end now, with `exit_code`: after --help or --version, or a line that is not understood.
inline bool understood(CLI::App& app, const std::string& program, int argc, char** argv, int& exit_code) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::CallForHelp& help) {
    exit_code = app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    exit_code = app.exit(version);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s (the command line was not understood); see %s --help\n", program.c_str(),
                 error.what(), program.c_str());
    exit_code = 2;
  }
  return false;
}

/// The exit status of `work`, or of the error that ended it, which is printed.
inline int exit_status(const std::string& program, const std::function<int()>& work) {
  try {
    return work();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), error.what());
    return exit_code_of(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s (this should not happen); report it with the command line\n",
                 program.c_str(), error.what());
    return 9;
  }
}

}  // namespace zeroproof::verification::bench
