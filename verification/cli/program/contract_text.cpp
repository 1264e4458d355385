#include "verification/cli/program/contract_text.hpp"

#include <algorithm>

#include "verification/cli/program/text_lines.hpp"

namespace zeroproof::verification {
namespace {

/// Where the text behind a label begins.
constexpr std::size_t prose_column = 9;

/// The comment lines that end above line `at`, slashes taken away.
std::vector<std::string> block_above(const std::vector<std::string>& lines, std::size_t at) {
  std::size_t end = at;
  // Up over the declarations that share the block; the second line of a long one is indented.
  while (end > 0 && (lines[end - 1].starts_with("using ") || lines[end - 1].starts_with("  ")))
    --end;
  std::size_t begin = end;
  while (begin > 0 && lines[begin - 1].starts_with("///")) --begin;
  std::vector<std::string> block;
  for (std::size_t i = begin; i < end; ++i) {
    const std::string& line = lines[i];
    block.push_back(line.size() > 4 ? line.substr(4) : "");
  }
  return block;
}

/// Columns before the text of a line: a label and at least two blanks belong to it ("Order    in fp64").
std::size_t text_column(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  if (first == std::string::npos || first > 0) return first == std::string::npos ? 0 : first;
  if (line.starts_with("Contract ")) return 9;
  const std::size_t gap = line.find("  ");
  if (gap == std::string::npos || gap > 10) return 0;
  const std::size_t text = line.find_first_not_of(' ', gap);
  return text == std::string::npos || text > 12 ? 0 : text;
}

/// True if a line continues the text of the line before, whose text begins at `column`.
bool continues(const std::string& line, std::size_t column) {
  return line.size() > column && line.find_first_not_of(' ') == column &&
         text_column(line) == column;
}

}  // namespace

std::vector<std::string> doc_block(const std::string& type) {
  const std::string declaration = "using " + type + " =";
  for (const ContractHeader& header : contract_headers()) {
    const std::vector<std::string> lines = lines_of(header.content);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].starts_with(declaration)) return block_above(lines, i);
    }
  }
  return {};
}

std::vector<std::string> referred_types(const std::vector<std::string>& block) {
  std::vector<std::string> types;
  std::string text;
  for (const std::string& line : block) text += line + " ";
  for (std::size_t at = text.find("Fn"); at != std::string::npos; at = text.find("Fn", at + 2)) {
    std::size_t begin = at;
    while (begin > 0 && std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0) --begin;
    const std::string type = text.substr(begin, at + 2 - begin);
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  }
  return types;
}

std::string wrapped(const std::vector<std::string>& block, std::size_t width,
                    const std::string& indent) {
  std::string out;
  const std::size_t columns = width - indent.size();
  for (std::size_t i = 0; i < block.size(); ++i) {
    std::string line = block[i];
    const std::size_t column = text_column(line);
    while (line.size() > columns) {
      // Equations are in columns: lines are split between two of them, and never joined.
      const bool equations = column > prose_column;
      const std::size_t gap = equations ? line.rfind("  ", columns) : std::string::npos;
      const bool at_gap = gap != std::string::npos && line.find_last_not_of(' ', gap) > column &&
                          line.find_last_not_of(' ', gap) != std::string::npos;
      const std::size_t cut = at_gap ? gap : line.rfind(' ', columns);
      if (cut == std::string::npos || cut <= column) break;  // one long word
      out += indent + line.substr(0, line.find_last_not_of(' ', cut) + 1) + "\n";
      line = std::string(column, ' ') + line.substr(line.find_first_not_of(' ', cut));
      // The remainder joins the next line of the same paragraph.
      if (!equations && line.size() <= columns && i + 1 < block.size() &&
          continues(block[i + 1], column)) {
        line += " " + block[++i].substr(column);
      }
    }
    out += (line.empty() ? "" : indent + line) + "\n";
  }
  return out;
}

}  // namespace zeroproof::verification
