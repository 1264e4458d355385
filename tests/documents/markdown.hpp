#pragma once
// Code blocks and inline code of a Markdown document.

#include <filesystem>
#include <string>
#include <vector>

namespace zeroproof::tests {

struct CodeBlock {
  std::string
      kind;  ///< after the opening fence: "console", "sh", "toml", ...; "indented" without one
  std::string
      not_run;  ///< the reason in a comment "<!-- not run: REASON -->" on the line above, or ""
  bool nightly = false;  ///< the same line is "<!-- nightly: REASON -->"
  std::string needs;     ///< "<!-- needs: python3 numpy -->": a program and its modules; without
                         ///< them the block is not run
  int line = 0;          ///< of its first line of code, counted from 1
  std::vector<std::string> lines;
};

struct InlineCode {
  int line = 0;
  std::string text;
};

struct Document {
  std::filesystem::path path;
  std::vector<CodeBlock> blocks;
  std::vector<InlineCode> inlines;
};

/// Errors: std::runtime_error if it cannot be read or a fence is left open.
Document read_document(const std::filesystem::path& path);

/// A command of a console block and its output.
struct ConsoleStep {
  std::string command;  ///< without "$ " and without "# exit N"
  int exit_code = 0;
  int line = 0;
  std::vector<std::string> output;
};

/// The steps of a block of kind console ("$ COMMAND", then its output) or sh (one command per line, without output).
std::vector<ConsoleStep> steps_of(const CodeBlock& block);

}  // namespace zeroproof::tests
