#include "verification/tools/quantize/glob.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace zeroproof {
namespace {

/// Characters of UTF-8; an invalid byte is a character of its own, above all others.
std::u32string characters(std::string_view text) {
  std::u32string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (length == 1 || at + length > text.size() || first < 0xC0) {
      result += first < 0x80 ? first : static_cast<char32_t>(0x110000U + first);
      ++at;
      continue;
    }
    char32_t code = first & (0xFFU >> (length + 1));
    for (std::size_t i = 1; i < length; ++i)
      code = code << 6U | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
    result += code;
    at += length;
  }
  return result;
}

/// The text between [ and ], read as a set.
Glob::Place set_of(const std::u32string& inside) {
  // Splits at hyphens that denote ranges: not the first or last character, none directly behind the
  // leading !, and at least two characters behind the previous one.
  std::vector<std::u32string> parts(1);
  std::size_t from = inside.front() == U'!' ? 2 : 1;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] == U'-' && i >= from && i + 1 < inside.size()) {
      parts.emplace_back();
      from = i + 3;
    } else {
      parts.back() += inside[i];
    }
  }
  // A range that ends before it begins is removed with both of its characters.
  for (std::size_t k = parts.size() - 1; k > 0; --k) {
    if (parts[k - 1].back() <= parts[k].front()) continue;
    parts[k - 1].pop_back();
    parts[k - 1] += parts[k].substr(1);
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(k));
  }
  // Only now: the removal of an empty range may have moved a ! to the front.
  const bool negated = parts.front().starts_with(U'!');
  if (negated) parts.front().erase(0, 1);
  if (parts.front().empty() &&
      parts.size() > 1) {  // a hyphen with no character before it is itself
    parts.erase(parts.begin());
    parts.front().insert(0, 1, U'-');
  }
  Glob::Place place{false, negated, {}};
  for (std::size_t k = 0; k < parts.size(); ++k) {
    for (const char32_t c : parts[k]) place.ranges.emplace_back(c, c);
    if (k > 0) place.ranges.emplace_back(parts[k - 1].back(), parts[k].front());
  }
  return place;
}

/// For the bracket at `at`: a ] that is first, or behind a !, does not close it.
template <class Text>
std::size_t closing_bracket(const Text& pattern, std::size_t at) {
  std::size_t first = at + 1;
  if (first < pattern.size() && pattern[first] == '!') ++first;
  if (first < pattern.size() && pattern[first] == ']') ++first;
  return pattern.find(']', first);
}

}  // namespace

Glob::Glob(std::string_view text) {
  const std::u32string pattern = characters(text);
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char32_t c = pattern[i];
    const std::size_t closing = c == U'[' ? closing_bracket(pattern, i) : pattern.npos;
    if (c == U'*') {
      places_.push_back({true, false, {}});
    } else if (c == U'?') {
      places_.push_back({false, true, {}});
    } else if (closing != pattern.npos) {
      places_.push_back(set_of(pattern.substr(i + 1, closing - i - 1)));
      i = closing;
    } else {
      places_.push_back({false, false, {{c, c}}});
    }
  }
}

bool Glob::Place::takes(char32_t c) const {
  const bool in = std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
    return c >= range.first && c <= range.second;
  });
  return in != negated;
}

bool Glob::matches(std::string_view text) const {
  const std::u32string word = characters(text);
  // Position of the last *, and the text it has matched so far: one character more whenever the
  // rest does not fit.
  std::size_t place = 0, at = 0;
  std::size_t star = places_.size(), taken_to = 0;
  while (at < word.size()) {
    if (place < places_.size() && places_[place].any_text) {
      star = place++;
      taken_to = at;
    } else if (place < places_.size() && places_[place].takes(word[at])) {
      ++place;
      ++at;
    } else if (star < places_.size()) {
      place = star + 1;
      at = ++taken_to;
    } else {
      return false;
    }
  }
  while (place < places_.size() && places_[place].any_text) ++place;
  return place == places_.size();
}

std::vector<bool> wildcard_bytes(std::string_view pattern) {
  std::vector<bool> wild(pattern.size(), false);
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '[' && pattern[i] != '*' && pattern[i] != '?') continue;
    const std::size_t last = pattern[i] == '[' ? closing_bracket(pattern, i) : i;
    if (last == pattern.npos) continue;
    std::fill(wild.begin() + static_cast<std::ptrdiff_t>(i),
              wild.begin() + static_cast<std::ptrdiff_t>(last) + 1, true);
    i = last;
  }
  return wild;
}

}  // namespace zeroproof
