#include "common/base/printable.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace zeroproof {
namespace {

constexpr std::size_t longest_word = 200;
constexpr std::size_t longest_text = 2000;

unsigned char byte(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (byte(text, at) & 0xC0U) == 0x80U;
}

/// Bytes of the character that begins here: 0 if it is not valid UTF-8, or overlong.
std::size_t length_at(std::string_view text, std::size_t at) {
  const unsigned first = byte(text, at);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  if (first >= 0xC2 && first <= 0xDF) length = 2;
  if (first >= 0xE0 && first <= 0xEF) length = 3;
  if (first >= 0xF0 && first <= 0xF4) length = 4;
  for (std::size_t i = 1; i < length; ++i) {
    if (!continues(text, at + i)) return 0;
  }
  if (length < 3) return length;
  const unsigned second = byte(text, at + 1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool none = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || none ? 0 : length;
}

std::uint32_t code_point(std::string_view character) {
  const std::size_t length = character.size();
  if (length == 1) return byte(character, 0);
  std::uint32_t code = byte(character, 0) & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte(character, i) & 0x3FU);
  return code;
}

bool acts(std::uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7F && code <= 0x9F);
  const bool line = code == 0x2028 || code == 0x2029;
  const bool direction = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) ||
                         code == 0x200E || code == 0x200F || code == 0x061C;
  return control || line || direction;
}

std::string written_out(std::string_view text, bool lines) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = length_at(text, at);
    const std::string_view character = text.substr(at, length == 0 ? 1 : length);
    const bool kept = lines && (character == "\n" || character == "\t");
    if (kept || (length > 0 && !acts(code_point(character)))) {
      result += character;
    } else {
      for (const char c : character) {
        char hex[5];
        std::snprintf(hex, sizeof(hex), "\\x%02x",
                      static_cast<unsigned>(static_cast<unsigned char>(c)));
        result += hex;
      }
    }
    at += character.size();
  }
  return result;
}

/// Splits between characters: a position inside of a character moves to its begin.
std::size_t boundary(std::string_view text, std::size_t at) {
  while (at > 0 && continues(text, at)) --at;
  return at;
}

std::string shortened(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) return std::string(text);
  const std::size_t head = boundary(text, longest * 3 / 5);
  const std::size_t tail = boundary(text, text.size() - longest / 5);
  std::string result(text.substr(0, head));
  result += "...(" + std::to_string(tail - head) + " bytes left out)...";
  result += text.substr(tail);
  return result;
}

}  // namespace

std::string printable(std::string_view text) { return written_out(text, false); }
std::string printable_lines(std::string_view text) { return written_out(text, true); }

std::string sentence(std::string_view text) {
  const std::string plain = printable(text);
  std::string result;
  for (std::size_t begin = 0; begin < plain.size();) {
    const std::size_t end = std::min(plain.find(' ', begin), plain.size());
    result += shortened(std::string_view(plain).substr(begin, end - begin), longest_word);
    if (end < plain.size()) result += ' ';
    begin = end + 1;
  }
  return shortened(result, longest_text);
}

}  // namespace zeroproof
