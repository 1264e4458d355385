#pragma once
// Runs the command line as a user does.

#include <doctest.h>

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "verification/cli/program/text_lines.hpp"

namespace zeroproof::tests {

struct CliResult {
  int exit_code = -1;
  std::string out, err;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// `arguments` is shell text; `program` is zeroproof or zeroproof-faults.
inline CliResult run_cli(const std::string& arguments, const std::string& program = "zeroproof") {
  const TemporaryFolder folder;
  const std::string command = "'" + build_folder() + "/" + program + "' " + arguments + " >'" +
                              folder.file("out") + "' 2>'" + folder.file("err") + "' </dev/null";
  const int status = std::system(command.c_str());
  CliResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = read_file(folder.file("out"));
  result.err = read_file(folder.file("err"));
  return result;
}

/// Columns of the longest line.
inline std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  for (const std::string& line : verification::lines_of(text)) most = std::max(most, line.size());
  return most;
}

/// The shell word for a path that may hold spaces.
inline std::string quoted(const std::string& path) { return "'" + path + "'"; }

/// One sentence on standard error, in the form of every error (problem, optional reason, hint), and
/// nothing else.
inline void expect_refusal(const CliResult& result, const std::string& must_mention,
                           int exit_code = 2) {
  CAPTURE(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.out.empty());
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  CHECK(result.err.starts_with("zeroproof: "));
  CHECK(result.err.find(" (") != std::string::npos);
  CHECK(result.err.find("; ") != std::string::npos);
  CHECK(result.err.find(must_mention) != std::string::npos);
}

inline void expect_refusal(const std::string& arguments, const std::string& must_mention,
                           int exit_code = 2) {
  CAPTURE(arguments);
  expect_refusal(run_cli(arguments), must_mention, exit_code);
}

}  // namespace zeroproof::tests
