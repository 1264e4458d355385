#include "tests/documents/markdown.hpp"

#include <fstream>
#include <stdexcept>

namespace zeroproof::tests {
namespace {

constexpr const char* fence = "```";

bool blank(const std::string& line) { return line.find_first_not_of(" \t") == std::string::npos; }

/// The reason in "<!-- WORDS: REASON -->".
std::string reason_of(const std::string& words, const std::string& line) {
  const std::string begin = "<!-- " + words + ": ";
  const std::size_t end = line.rfind(" -->");
  return line.starts_with(begin) && end != std::string::npos
             ? line.substr(begin.size(), end - begin.size())
             : std::string();
}

void add_inlines(const std::string& line, int number, Document& document) {
  for (std::size_t open = line.find('`'); open != std::string::npos;) {
    const std::size_t close = line.find('`', open + 1);
    if (close == std::string::npos) return;
    document.inlines.push_back({number, line.substr(open + 1, close - open - 1)});
    open = line.find('`', close + 1);
  }
}

}  // namespace

Document read_document(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path.string() + " cannot be read");
  Document document{path, {}, {}};
  std::string before;  // the line above, where an indented block may begin
  bool fenced = false;
  bool indented = false;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (fenced) {
      if (line.starts_with(fence)) {
        fenced = false;
      } else {
        document.blocks.back().lines.push_back(line);
      }
    } else if (line.starts_with(fence)) {
      fenced = true;
      indented = false;
      document.blocks.push_back({line.substr(3),
                                 reason_of("not run", before),
                                 !reason_of("nightly", before).empty(),
                                 reason_of("needs", before),
                                 number + 1,
                                 {}});
    } else if (line.starts_with("    ") && (indented || blank(before)) && !blank(line)) {
      if (!indented) document.blocks.push_back({"indented", "", false, "", number, {}});
      indented = true;
      document.blocks.back().lines.push_back(line.substr(4));
    } else {
      indented = indented && blank(line);
      add_inlines(line, number, document);
    }
    before = line;
  }
  if (fenced) throw std::runtime_error(path.string() + ": the last block of code is not closed");
  return document;
}

std::vector<ConsoleStep> steps_of(const CodeBlock& block) {
  std::vector<ConsoleStep> steps;
  int number = block.line;
  for (const std::string& line : block.lines) {
    const bool command =
        block.kind == "sh" ? !blank(line) && !line.starts_with("#") : line.starts_with("$ ");
    if (command) {
      ConsoleStep step{block.kind == "sh" ? line : line.substr(2), 0, number, {}};
      const std::size_t remark = step.command.find("  # ");
      if (remark != std::string::npos) {
        const std::string words = step.command.substr(remark + 4);
        if (words.starts_with("exit ")) step.exit_code = std::stoi(words.substr(5));
        step.command.resize(step.command.find_last_not_of(' ', remark) + 1);
      }
      steps.push_back(step);
    } else if (!steps.empty() && block.kind != "sh") {
      steps.back().output.push_back(line);
    }
    ++number;
  }
  return steps;
}

}  // namespace zeroproof::tests
