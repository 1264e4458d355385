#pragma once
// fmt::format, as the harness calls it: the library is compiled in one source (format.cpp). Only the declarations are
// read here, which is a fifth of the work of <fmt/format.h> in every source that writes a table.

#include <fmt/core.h>

#include <string>

/// Named like the library's own namespace: calls read as they do anywhere.
namespace zeroproof::verification::fmt {

/// The text with `values` in the place of its {}.
std::string formatted(::fmt::string_view text, ::fmt::format_args values);

/// fmt::format: {} and what stands in them are checked while compiling.
template <class... Values>
std::string format(::fmt::format_string<Values...> text, Values&&... values) {
  return formatted(text, ::fmt::make_format_args(values...));
}

}  // namespace zeroproof::verification::fmt
