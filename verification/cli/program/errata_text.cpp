#include "verification/cli/program/errata_text.hpp"

#include "verification/cli/program/document_text.hpp"
#include "verification/cli/program/text_lines.hpp"

namespace zeroproof::verification {
namespace {

/// The cells of "| 46 | claim | finding | shown by |"; none of another line.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  if (!line.starts_with("| ")) return cells;
  for (std::size_t at = 2, end = 0; (end = line.find(" |", at)) != std::string::npos;
       at = end + 3) {
    cells.push_back(line.substr(at, end - at));
    if (end + 3 > line.size()) break;
  }
  return cells;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 5 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<Erratum> read_errata() {
  std::vector<Erratum> found;
  std::string section;
  for (const Document& document : documents()) {
    if (document.file != "papers/errata.md") continue;
    for (const std::string& line : lines_of(document.content)) {
      if (line.starts_with("## ")) section = line.substr(3);
      const std::vector<std::string> cells = cells_of(line);
      if (cells.size() == 4 && is_number(cells[0]))
        found.push_back({std::stoi(cells[0]), section, cells[1], cells[2], cells[3]});
    }
  }
  return found;
}

}  // namespace

const std::vector<Erratum>& errata() {
  static const std::vector<Erratum> all = read_errata();
  return all;
}

}  // namespace zeroproof::verification
