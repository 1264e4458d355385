#pragma once
// Untrusted texts (arguments, files, bundles) on a terminal.

#include <string>
#include <string_view>

namespace zeroproof {

/// The same text on one line, without effect on a terminal. Written as `\xNN`: control characters,
/// whose escape sequences move the cursor or change titles; bytes that are not UTF-8; characters
/// that change the direction of writing.
std::string printable(std::string_view text);

/// The same for a text of several lines: keeps line breaks and tabs.
std::string printable_lines(std::string_view text);

/// printable(), shortened: the middle of a word longer than 200 bytes and of a text longer than
/// 2,000 is replaced by its length.
std::string sentence(std::string_view text);

}  // namespace zeroproof
