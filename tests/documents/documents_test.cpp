// Runs the commands of all Markdown files and compares their output with the blocks below them.
// ZP_PYTHON: the interpreter for python3. ZP_DOCUMENT: parts of file names, separated by colons;
// only matching files are tested. ZP_WRITE_DOCUMENTS=1 writes the new output into the documents
// instead: read the difference before committing it.

#include <doctest.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/documents/markdown.hpp"
#include "tests/documents/matching.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "verification/cli/program/text_lines.hpp"

using namespace zeroproof::tests;
using zeroproof::verification::lines_of;
namespace fs = std::filesystem;

namespace {

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A folder with links to the checkout and its build, so that commands do not write into the checkout.
class Checkout {
 public:
  Checkout() {
    for (const fs::directory_entry& entry : fs::directory_iterator(source_folder())) {
      const std::string name = entry.path().filename().string();
      if (name != "build" && name != ".git") fs::create_symlink(entry.path(), folder_.file(name));
    }
    fs::create_directory_symlink(build_folder(), folder_.file("build"));
    if (const char* python = std::getenv("ZP_PYTHON")) {  // a link would not find its packages
      std::ofstream(tools_.file("python3")) << "#!/bin/sh\nexec '" << python << "' \"$@\"\n";
      fs::permissions(tools_.file("python3"), fs::perms::owner_all);
    }
  }

  /// Whether a program and, for python3, the listed modules exist: "python3 numpy safetensors".
  bool has(const std::string& needs) const {
    std::istringstream words(needs);
    std::string program, imports;
    words >> program;
    for (std::string module; words >> module;)
      imports += (imports.empty() ? "import " : ", ") + module;
    return run("command -v " + program +
               (imports.empty() ? "" : " && " + program + " -c '" + imports + "'"))
               .first == 0;
  }

  /// Exit code and standard output, with standard error for a failed command. Set-up scripts run
  /// with ZP_DRY_RUN.
  std::pair<int, std::string> run(const std::string& command) const {
    const bool sets_up = command.starts_with("./") || command.starts_with(".ci/");
    const std::string out = folder_.file("printed");
    const std::string err = folder_.file("complained");
    const std::string line = "cd '" + folder() + "' && PATH='" + tools_.file(".") +
                             "':\"$PATH\" && { " +
                             (sets_up ? "export ZP_DRY_RUN=1 ZP_INSTALL=never; " : "") + command +
                             "\n} >'" + out + "' 2>'" + err + "' </dev/null";
    const int status = std::system(line.c_str());
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const std::string text = content_of(out) + (code == 0 ? std::string() : content_of(err));
    fs::remove(out);
    fs::remove(err);
    return {code, text};
  }

  std::string folder() const { return folder_.file("."); }

 private:
  TemporaryFolder folder_, tools_;
};

std::vector<Document> all_documents() {
  std::vector<Document> documents;
  const fs::path root = source_folder();
  const std::set<std::string> places = {"common",    "cuda",  "notebooks",   "papers",
                                        "reference", "tests", "verification"};
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (entry.path().extension() == ".md") documents.push_back(read_document(entry.path()));
    if (!entry.is_directory() || !places.contains(entry.path().filename().string())) continue;
    for (const fs::directory_entry& inner : fs::recursive_directory_iterator(entry.path())) {
      if (inner.path().extension() == ".md") documents.push_back(read_document(inner.path()));
    }
  }
  if (const char* chosen = std::getenv("ZP_DOCUMENT")) {
    std::erase_if(documents, [&](const Document& document) {
      std::istringstream parts(chosen);
      for (std::string part; std::getline(parts, part, ':');) {
        if (document.path.string().find(part) != std::string::npos) return false;
      }
      return true;
    });
  }
  std::ranges::sort(documents, {}, &Document::path);
  return documents;
}

std::string place_of(const Document& document, int line) {
  return document.path.lexically_relative(source_folder()).string() + ":" + std::to_string(line);
}

bool names_program(const std::string& text) {
  return text.find("build/zeroproof") != std::string::npos || text.starts_with("zeroproof ") ||
         text.starts_with("$ ") || text.starts_with("./tests/") ||
         text.starts_with("./verification/");
}

/// Replaces the output of a step in its document.
void replace_output(const ConsoleStep& step, const std::vector<std::string>& got,
                    const fs::path& path) {
  std::vector<std::string> lines = lines_of(content_of(path));
  const auto first =
      lines.begin() + step.line;  // step.line counts from 1: the line after the command
  lines.erase(first, first + static_cast<std::ptrdiff_t>(step.output.size()));
  lines.insert(lines.begin() + step.line, got.begin(), got.end());
  std::ofstream file(path, std::ios::binary);
  for (const std::string& line : lines) file << line << "\n";
}

/// Runs the nightly blocks or the others; returns the number of commands.
int run_documents(bool nightly) {
  const Checkout checkout;
  const bool write = std::getenv("ZP_WRITE_DOCUMENTS") != nullptr;
  const std::vector<std::string> folders = {checkout.folder(), source_folder()};
  int run = 0;
  for (const Document& document : all_documents()) {
    std::vector<std::pair<ConsoleStep, std::vector<std::string>>> changes;
    for (const CodeBlock& block : document.blocks) {
      if (!block.not_run.empty()) {
        if (!nightly)
          MESSAGE("not run: " << place_of(document, block.line) << ": " << block.not_run);
        continue;
      }
      if ((block.kind != "console" && block.kind != "sh") || block.nightly != nightly) continue;
      if (!block.needs.empty() && !checkout.has(block.needs)) {
        MESSAGE("not run: " << place_of(document, block.line) << ": " << block.needs
                            << " not found");
        continue;
      }
      for (const ConsoleStep& step : steps_of(block)) {
        const std::string place = place_of(document, step.line) + ": " + step.command;
        CAPTURE(place);
        const auto begin = std::chrono::steady_clock::now();
        const std::pair<int, std::string> result = checkout.run(step.command);
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
                                 std::chrono::steady_clock::now() - begin)
                                 .count();
        if (seconds >= 5)
          MESSAGE(place << " (" << seconds << " s)");  // slow commands belong to the nightly blocks
        ++run;
        const std::string& text = result.second;
        CAPTURE(text);
        CHECK(result.first == step.exit_code);
        if (block.kind == "sh") continue;
        std::vector<std::string> got;
        for (const std::string& line : lines_of(text)) got.push_back(masked(line, folders));
        std::vector<std::string> wanted;
        for (const std::string& line : step.output) wanted.push_back(masked(line, {}));
        const int bad = first_mismatch(wanted, got);
        if (bad < 0) continue;
        const bool gaps = std::ranges::any_of(
            wanted, [](const std::string& line) { return line.ends_with("..."); });
        if (write && !gaps) {
          changes.push_back({step, got});
        } else {
          const std::string says = wanted.empty() ? "(nothing)" : wanted[bad];
          FAIL_CHECK(place << "\n  line of the document that the program did not print: " << says
                           << "\n  output of the program:\n"
                           << text);
        }
      }
    }
    std::ranges::reverse(changes);  // from the end, so that line numbers stay valid
    for (const auto& [step, got] : changes) replace_output(step, got, document.path);
  }
  return run;
}

}  // namespace

TEST_CASE("Documents: commands print the output shown") {
  CHECK(run_documents(false) >= (std::getenv("ZP_DOCUMENT") == nullptr ? 20 : 1));
}

TEST_CASE("nightly: Documents: slow commands print the output shown") {
  CHECK(run_documents(true) >= 1);
}

TEST_CASE("Documents: all commands are in executed blocks") {
  for (const Document& document : all_documents()) {
    for (const CodeBlock& block : document.blocks) {
      if (block.kind == "console" || block.kind == "sh" || !block.not_run.empty()) continue;
      for (const std::string& line : block.lines) {
        CAPTURE(place_of(document, block.line));
        CAPTURE(line);
        CHECK_FALSE(names_program(line));
      }
    }
  }
}

TEST_CASE("Documents: commands and flags in text exist") {
  const Checkout checkout;
  std::set<std::string> known_help;
  int looked_at = 0;
  for (const Document& document : all_documents()) {
    if (document.path.filename() == "CHANGELOG.md") continue;  // has names of the past
    for (const InlineCode& code : document.inlines) {
      std::istringstream words(code.text);
      std::string program, command;
      words >> program >> command;
      if (program.starts_with("build/")) program = program.substr(6);
      if ((program != "zeroproof" && program != "zeroproof-faults") || command.empty() ||
          command.starts_with("-"))
        continue;
      const auto [code_of_help, help] =
          checkout.run("build/" + program + " " + command + " --help");
      CAPTURE(place_of(document, code.line));
      CAPTURE(code.text);
      CHECK(code_of_help == 0);
      for (std::string word; words >> word;) {
        if (!word.starts_with("--")) continue;
        ++looked_at;
        CHECK(help.find(word.substr(0, word.find('='))) != std::string::npos);
      }
    }
  }
  CHECK(looked_at > 0);
}

TEST_CASE("first_mismatch and masked: gaps, blank lines, times, folders") {
  CHECK(first_mismatch({"a", "b"}, {"a", "b", ""}) == -1);
  CHECK(first_mismatch({"a", "b"}, {"a", "c"}) == 1);
  CHECK(first_mismatch({"a"}, {"a", "b"}) >= 0);
  CHECK(first_mismatch({"a", "b"}, {"a"}) == 1);
  CHECK(first_mismatch({"a", "...", "c"}, {"a", "x", "c", "y", "c"}) == -1);
  CHECK(first_mismatch({"a", "...", "c"}, {"a", "x"}) == 2);
  CHECK(first_mismatch({"  ..."}, {}) == -1);
  CHECK(first_mismatch({}, {}) == -1);
  CHECK(first_mismatch({}, {"a"}) >= 0);
  CHECK(masked("took 1.5 s in /tmp/x/build  ", {"/tmp/x"}) ==
        "took <time> in /home/you/zeroproof/build");
  CHECK(masked("12 steps", {}) == "12 steps");
  CHECK(masked("0.03 ms, 7s, 15 GB/s", {}) == "<time>, <time>, <time>");
}
