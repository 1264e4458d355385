#include "tests/documents/matching.hpp"

#include <algorithm>
#include <regex>

namespace zeroproof::tests {
namespace {

bool is_gap(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin != std::string::npos && line.substr(begin) == "...";
}

void drop_blank_end(std::vector<std::string>& lines) {
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
}

}  // namespace

std::string masked(const std::string& line, const std::vector<std::string>& folders) {
  std::string text = line;
  for (const std::string& folder : folders) {
    for (std::size_t at = text.find(folder); at != std::string::npos;
         at = text.find(folder, at + 1)) {
      text.replace(at, folder.size(), "/home/you/zeroproof");
    }
  }
  static const std::regex time("[0-9]+([.][0-9]+)? ?(s|ms|us|min|minutes|GB/s)\\b");
  text = std::regex_replace(text, time, "<time>");
  const std::size_t end = text.find_last_not_of(' ');
  return end == std::string::npos ? std::string() : text.substr(0, end + 1);
}

int first_mismatch(const std::vector<std::string>& wanted_lines,
                   const std::vector<std::string>& got_lines) {
  std::vector<std::string> wanted = wanted_lines;
  std::vector<std::string> got = got_lines;
  drop_blank_end(wanted);
  drop_blank_end(got);
  // reach[i]: wanted[0, i) matches got[0, j), for the j of this round.
  std::vector<char> reach(wanted.size() + 1, 0);
  reach[0] = 1;
  const auto pass_gaps = [&](std::vector<char>& states) {
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (states[i] != 0 && is_gap(wanted[i])) states[i + 1] = 1;
  };
  pass_gaps(reach);
  std::size_t furthest = 0;
  const auto note = [&](const std::vector<char>& states) {
    for (std::size_t i = 0; i < states.size(); ++i)
      if (states[i] != 0) furthest = std::max(furthest, i);
  };
  note(reach);
  for (const std::string& line : got) {
    std::vector<char> next(wanted.size() + 1, 0);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (reach[i] == 0) continue;
      if (is_gap(wanted[i])) {
        next[i] = 1;
      } else if (wanted[i] == line) {
        next[i + 1] = 1;
      }
    }
    pass_gaps(next);
    note(next);
    reach = std::move(next);
  }
  if (reach[wanted.size()] != 0) return -1;
  return static_cast<int>(std::min(furthest, wanted.empty() ? 0 : wanted.size() - 1));
}

}  // namespace zeroproof::tests
