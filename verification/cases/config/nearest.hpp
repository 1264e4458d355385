#pragma once
// What somebody meant who typed a name that does not exist.

#include <string>
#include <string_view>
#include <vector>

namespace zeroproof {

/// Of ASCII letters, in any locale.
std::string lower_case(std::string text);

/// Slips of the fingers between two words: letters left out, put in, replaced, or swapped with their neighbour.
std::size_t slips(std::string_view typed, std::string_view meant);

/// The member of `choices` that begins with `word` (3 characters or more), or else the one fewest slips away, if those
/// are at most one for every three letters of the longer word; "" if none is that near.
std::string nearest(std::string_view word, const std::vector<std::string>& choices);

/// The remedy for a word that is none of `choices`: "did you mean X?" if one is near, else `otherwise`, and without
/// that all of them: "use A, B or C".
std::string suggestion(std::string_view word, const std::vector<std::string>& choices,
                       const std::string& otherwise = "");

}  // namespace zeroproof
