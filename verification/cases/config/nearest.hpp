#pragma once
// Suggestions for misspelt names.

#include <string>
#include <string_view>
#include <vector>

namespace zeroproof {

/// Lower case of ASCII letters, in any locale.
std::string lower_case(std::string text);

/// Edit distance of two words: letters left out, inserted, replaced, or swapped with their
/// neighbour.
std::size_t slips(std::string_view typed, std::string_view meant);

/// The member of `choices` for which `word` is the name of another library ("bfloat16": "bf16"),
/// otherwise the one that begins with `word` (3 characters or more), otherwise the one at the
/// smallest edit distance, if that is at most one for every three letters of the longer word; "" if
/// there is none.
std::string nearest(std::string_view word, const std::vector<std::string>& choices);

/// The hint for a word that is not in `choices`: "did you mean X?" if one is near, else
/// `otherwise`, or, if that is empty, "use A, B or C" with all of them.
std::string suggestion(std::string_view word, const std::vector<std::string>& choices,
                       const std::string& otherwise = "");

}  // namespace zeroproof
