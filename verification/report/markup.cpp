#include "verification/report/markup.hpp"

#include <array>

namespace zeroproof::verification {
namespace {

/// Length of the UTF-8 sequence that begins here and that XML 1.0 may hold; 0 if there is none.
std::size_t character_length(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned char>(i < text.size() ? text[i] : 0);
  };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  std::uint32_t code = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80) return 0;
    code = code << 6 | (byte(at + i) & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  const bool allowed =
      code >= least[length] && !surrogate && code <= 0x10FFFF && code != 0xFFFE && code != 0xFFFF;
  return allowed ? length : 0;
}

}  // namespace

std::string escaped(const std::string& text, Within within) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_length(text, i);
    const auto c = static_cast<unsigned char>(text[i]);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++i;
      continue;
    }
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&apos;";
    } else if (c == '\n' && within == Within::element) {
      out += text[i];
    } else if (c == '\n' || c == '\t' || c == '\r') {
      out += "&#" + std::to_string(c) + ";";
    } else if (c >= 0x20 && c != 0x7F) {
      out += text.substr(i, length);
    }
    i += length;
  }
  return out;
}

}  // namespace zeroproof::verification
