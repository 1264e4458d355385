#pragma once
// Patterns on dotted paths: the same results as Python's fnmatch.fnmatchcase, on every platform.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zeroproof {

/// * is any text, ? one character, [seq] one of these, [!seq] one of the others; `a-z` in brackets
/// is a range, a `]` at the first place is one of the characters, and a bracket that is never
/// closed is itself. Upper and lower case are different. Characters are those of UTF-8. Corners of
/// Python's rules: an empty range ([z-a]) matches nothing, [!z-a] any character, and the rest of a
/// set without its empty ranges is read again ([b-a!x] is [!x]). fnmatch(3) differs in [^a], \,
/// [[:alpha:]], empty ranges, and without a locale in every character beyond ASCII. Source
/// [Quant:glob].
class Glob {
 public:
  explicit Glob(std::string_view pattern);
  /// The whole text.
  bool matches(std::string_view text) const;

  /// One place of a pattern.
  struct Place {
    bool any_text = false;
    bool negated = false;
    std::vector<std::pair<char32_t, char32_t>> ranges;  ///< from, to, both included

    bool takes(char32_t c) const;
  };

 private:
  std::vector<Place> places_;
};

/// Positions of wildcards in a pattern: for each of its bytes whether it is part of one.
std::vector<bool> wildcard_bytes(std::string_view pattern);

}  // namespace zeroproof
