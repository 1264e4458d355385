// Bytes that are no text: our own messages, with a line, independent of the library.

#include <algorithm>
#include <array>
#include <cstdio>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "verification/tools/quantize/yaml.hpp"

namespace zeroproof {
namespace {

std::string hex(char c) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "0x%02X",
                static_cast<unsigned>(static_cast<unsigned char>(c)));
  return text.data();
}

/// Of one line, without its line feed. `place` is "file:line".
void check_line(std::string_view line, const std::string& place) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    ZP_CHECK(c != '\r', ErrorCode::config, place + ": a carriage return is in the middle of a line",
             "some programs begin a line there", "end lines with a line feed");
    ZP_CHECK(c != '\t', ErrorCode::config, place + ": there is a tab",
             "as an indentation or before a value, readers do not agree about it",
             "write blanks, or \\t in quotation marks");
    ZP_CHECK(byte >= 0x20 && byte != 0x7F, ErrorCode::config, place + ": there is a byte " + hex(c),
             "a configuration is text", "remove it");
  }
  // It escapes invalid UTF-8 and characters that act on a terminal.
  ZP_CHECK(printable(line) == line, ErrorCode::config,
           place + ": there is a character that is no UTF-8 or cannot be shown",
           "the shown text would differ from the text that is read",
           "remove it, or write an escape in quotation marks");
}

}  // namespace

const YamlNode* YamlNode::member(std::string_view name) const {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const YamlMember& member) { return member.key == name; });
  return found == members.end() ? nullptr : &found->value;
}

void check_yaml_text(std::string_view text, const std::string& file) {
  ZP_CHECK(static_cast<std::int64_t>(text.size()) <= most_yaml_bytes, ErrorCode::config,
           file + " has more than " + std::to_string(most_yaml_bytes) + " bytes",
           "no configuration is that long", "name the right file");
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);  // the mark of UTF-8
  std::int64_t number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    check_line(text.substr(at, end - at), file + ":" + std::to_string(number));
    at = end + 1;
  }
}

}  // namespace zeroproof
