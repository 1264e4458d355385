// Only this source may define it: otherwise the library would be compiled again.
#define FMT_HEADER_ONLY
#include "verification/report/format.hpp"

#include <fmt/format.h>

namespace zeroproof::verification::fmt {

std::string formatted(::fmt::string_view text, ::fmt::format_args values) {
  return ::fmt::vformat(text, values);
}

}  // namespace zeroproof::verification::fmt
