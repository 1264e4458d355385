#pragma once
// Texts of strangers (arguments, files, bundles) on a terminal.

#include <string>
#include <string_view>

namespace zeroproof {

/// The same text on one line that does nothing to a terminal. Written out as \xNN: control characters, whose escape
/// sequences move the cursor or change titles; bytes that are no UTF-8; characters that turn the direction of writing.
std::string printable(std::string_view text);

/// The same for a text of several lines: line breaks and tabs stay.
std::string printable_lines(std::string_view text);

/// printable(), and short enough to be read: of a word longer than 200 bytes the middle is left out, and of a text
/// longer than 2,000; how much is said in its place.
std::string sentence(std::string_view text);

}  // namespace zeroproof
