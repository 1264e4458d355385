#pragma once
// fmt::format for the harness: the library is compiled in one source (format.cpp). Only the
// declarations are included here, a fifth of the cost of <fmt/format.h> in every source that writes
// a table.

#include <fmt/core.h>

#include <string>

/// Named like the library's namespace, so that calls look as usual.
namespace zeroproof::verification::fmt {

/// The text with its {} replaced by `values`.
std::string formatted(::fmt::string_view text, ::fmt::format_args values);

/// fmt::format: {} and their specifications are checked at compile time.
template <class... Values>
std::string format(::fmt::format_string<Values...> text, Values&&... values) {
  return formatted(text, ::fmt::make_format_args(values...));
}

}  // namespace zeroproof::verification::fmt
