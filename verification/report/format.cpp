// No other source of the harness may say this: the library would be compiled there once more.
#define FMT_HEADER_ONLY
#include "verification/report/format.hpp"

#include <fmt/format.h>

namespace zeroproof::verification::fmt {

std::string formatted(::fmt::string_view text, ::fmt::format_args values) {
  return ::fmt::vformat(text, values);
}

}  // namespace zeroproof::verification::fmt
