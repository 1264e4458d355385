#include "verification/tools/quantize/glob.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace zeroproof {
namespace {

/// Characters of UTF-8; a byte that is none stands for itself, above all characters.
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

using Place = Glob::Place;

Place any_character() { return {false, true, {}}; }
Place exactly(char32_t c) { return {false, false, {{c, c}}}; }

/// What stands between hyphens that make ranges. The hyphen behind the first character, or behind a !, may make one;
/// so may every later one that has at least two characters before it.
std::vector<std::u32string> between_hyphens(const std::u32string& inside) {
  std::vector<std::u32string> parts;
  std::size_t begin = 0;
  std::size_t from = !inside.empty() && inside[0] == U'!' ? 2 : 1;
  for (std::size_t hyphen = inside.find(U'-', from); hyphen < inside.size();
       hyphen = inside.find(U'-', from)) {
    parts.push_back(inside.substr(begin, hyphen - begin));
    begin = hyphen + 1;
    from = hyphen + 3;
  }
  if (begin < inside.size() || parts.empty()) {
    parts.push_back(inside.substr(begin));
  } else {
    parts.back() += U'-';  // the last character is a hyphen
  }
  return parts;
}

/// A range whose end comes before its beginning goes, and takes both with it.
void drop_empty_ranges(std::vector<std::u32string>& parts) {
  for (std::size_t k = parts.size() - 1; k > 0; --k) {
    if (parts[k - 1].back() <= parts[k].front()) continue;
    parts[k - 1] = parts[k - 1].substr(0, parts[k - 1].size() - 1) + parts[k].substr(1);
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(k));
  }
}

/// What stands between [ and ], read as a set.
Place set_of(const std::u32string& inside) {
  std::vector<std::u32string> parts = between_hyphens(inside);
  drop_empty_ranges(parts);
  Place place;
  // A ! in front of what is left negates; it may have come there when an empty range went.
  if (!parts.front().empty() && parts.front().front() == U'!') {
    place.negated = true;
    parts.front().erase(0, 1);
  }
  if (parts.front().empty() && parts.size() > 1) {  // nothing is before the hyphen, which then is a character
    parts[1] = U"-" + parts[1];
    parts.erase(parts.begin());
  }
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const std::u32string& part = parts[k];
    for (std::size_t i = 0; i < part.size(); ++i) {
      const bool ends_range = k > 0 && i == 0;
      const bool begins_range = k + 1 < parts.size() && i + 1 == part.size();
      if (ends_range) place.ranges.emplace_back(parts[k - 1].back(), part[i]);
      if (!ends_range && !begins_range) place.ranges.emplace_back(part[i], part[i]);
    }
  }
  return place;
}

/// Of the bracket at `at`: a ] that stands first, or behind a !, does not close it.
template <class Text>
std::size_t closing_bracket(const Text& pattern, std::size_t at) {
  std::size_t first = at + 1;
  if (first < pattern.size() && pattern[first] == '!') ++first;
  if (first < pattern.size() && pattern[first] == ']') ++first;
  return pattern.find(']', first);
}

std::vector<Place> places_of(const std::u32string& pattern) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char32_t c = pattern[i];
    if (c == U'*') {
      places.push_back({true, false, {}});
    } else if (c == U'?') {
      places.push_back(any_character());
    } else if (c == U'[') {
      const std::size_t closing = closing_bracket(pattern, i);
      if (closing == pattern.npos) {
        places.push_back(exactly(c));
      } else {
        places.push_back(set_of(pattern.substr(i + 1, closing - i - 1)));
        i = closing;
      }
    } else {
      places.push_back(exactly(c));
    }
  }
  return places;
}

}  // namespace

bool Glob::Place::takes(char32_t c) const {
  const bool in = std::any_of(ranges.begin(), ranges.end(),
                              [&](const auto& range) { return c >= range.first && c <= range.second; });
  return in != negated;
}

Glob::Glob(std::string_view pattern) : places_(places_of(characters(pattern))) {}

bool Glob::matches(std::string_view text) const {
  const std::u32string word = characters(text);
  // Where the last * stands, and what it has taken so far: one character more whenever the rest does not fit.
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
    std::size_t last = i;
    if (pattern[i] == '[') last = std::min(closing_bracket(pattern, i), pattern.size());
    if (pattern[i] == '[' && last == pattern.size()) continue;
    if (pattern[i] != '[' && pattern[i] != '*' && pattern[i] != '?') continue;
    for (; i < last; ++i) wild[i] = true;
    wild[i] = true;
  }
  return wild;
}

}  // namespace zeroproof
