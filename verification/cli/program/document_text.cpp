#include "verification/cli/program/document_text.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "verification/cli/program/text_lines.hpp"

namespace zeroproof::verification {
namespace {

/// Lines that are not reflowed: tables, equations, figures.
bool is_fixed(const std::string& line) {
  return line.starts_with("|") || line.starts_with("    ") || line.starts_with("$$") ||
         line.starts_with("```");
}

void trim(std::vector<std::string>& lines) {
  while (!lines.empty() && lines.front().empty()) lines.erase(lines.begin());
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
}

/// "R12" of "## R12 Global norm"; "" for another heading.
std::string rule_of(const std::string& line) {
  if (!line.starts_with("## R") || line.size() < 5 ||
      std::isdigit(static_cast<unsigned char>(line[4])) == 0)
    return "";
  return line.substr(3, line.find(' ', 3) - 3);
}

std::vector<Passage> read_rules() {
  std::vector<Passage> found;
  const Document& contract = documents().front();
  bool inside = false;
  for (const std::string& line : lines_of(contract.content)) {
    if (line.starts_with("## ")) {
      const std::string name = rule_of(line);
      inside = !name.empty();
      if (inside)
        found.push_back(
            {name, line.substr(std::min(line.size(), name.size() + 4)), contract.file, {}});
    } else if (inside) {
      found.back().lines.push_back(line);
    }
  }
  for (Passage& rule : found) trim(rule.lines);
  return found;
}

/// "ZeRO:local" of "**[ZeRO:local]** An update rule ..."; "" if the line begins with none.
std::string label_of(const std::string& line) {
  const std::size_t end = line.find("]**");
  return line.starts_with("**[") && end != std::string::npos ? line.substr(3, end - 3) : "";
}

/// The end of the passage of the label in line `at`: the next label or heading, or the end of the
/// paragraph and its fixed lines. A label on a line of its own belongs to the text after it.
std::size_t end_of_passage(const std::vector<std::string>& lines, std::size_t at) {
  bool any = lines[at].find("]**") + 3 < lines[at].size();
  for (std::size_t i = at + 1; i < lines.size(); ++i) {
    if (!label_of(lines[i]).empty() || lines[i].starts_with("#")) return i;
    if (!lines[i].empty()) {
      any = true;
      continue;
    }
    const bool goes_on = i + 1 < lines.size() && (is_fixed(lines[i + 1]) || !any);
    if (!goes_on) return i;
  }
  return lines.size();
}

std::vector<Passage> read_labels() {
  std::vector<Passage> found;
  for (const Document& document : documents()) {
    const std::vector<std::string> lines = lines_of(document.content);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string name = label_of(lines[i]);
      if (name.empty()) continue;
      const auto end = lines.begin() + static_cast<std::ptrdiff_t>(end_of_passage(lines, i));
      Passage passage{
          name, "", document.file, {lines.begin() + static_cast<std::ptrdiff_t>(i), end}};
      std::string& first = passage.lines.front();
      first =
          first.substr(std::min(first.size(), first.find_first_not_of(' ', first.find("]**") + 3)));
      trim(passage.lines);
      found.push_back(std::move(passage));
    }
  }
  return found;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Appends words to lines of at most `width` columns.
void fill(std::string& out, const std::string& text, std::size_t width, const std::string& indent) {
  std::istringstream words(text);
  std::string line = indent;
  for (std::string word; words >> word;) {
    const bool first = line.size() == indent.size();
    if (!first && line.size() + 1 + word.size() > width) {
      out += line + "\n";
      line = indent;
    }
    line += (line.size() == indent.size() ? "" : " ") + word;
  }
  if (line.size() > indent.size()) out += line + "\n";
}

}  // namespace

const std::vector<Passage>& rules() {
  static const std::vector<Passage> all = read_rules();
  return all;
}

const std::vector<Passage>& labels() {
  static const std::vector<Passage> all = read_labels();
  return all;
}

const Passage* find_passage(const std::vector<Passage>& passages, const std::string& name) {
  const bool brackets = name.size() > 2 && name.front() == '[' && name.back() == ']';
  const std::string wanted = lower(brackets ? name.substr(1, name.size() - 2) : name);
  const auto found = std::find_if(passages.begin(), passages.end(), [&](const Passage& passage) {
    return lower(passage.name) == wanted;
  });
  return found == passages.end() ? nullptr : &*found;
}

bool cites(const std::string& text, const std::string& name) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end])))
      return true;
  }
  return false;
}

std::string filled(const std::vector<std::string>& lines, std::size_t width,
                   const std::string& indent) {
  std::string out;
  std::string paragraph;
  const auto end_paragraph = [&] {
    fill(out, paragraph, width, indent);
    paragraph.clear();
  };
  for (const std::string& line : lines) {
    if (line.empty()) {
      end_paragraph();
      out += "\n";
    } else if (is_fixed(line) && indent.size() + line.size() <= width) {
      end_paragraph();
      out += indent + line + "\n";
    } else if (is_fixed(line)) {
      end_paragraph();
      const bool table = line.starts_with("|");
      fill(out, line, width, indent + (table ? "" : "    "));
    } else {
      paragraph += line + " ";
    }
  }
  end_paragraph();
  return out;
}

}  // namespace zeroproof::verification
