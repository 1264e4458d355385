#include "verification/cli/step_range.hpp"

#include <charconv>

#include "common/base/error.hpp"

namespace zeroproof::verification {

std::pair<std::int64_t, std::int64_t> parse_step_range(const std::string& text,
                                                       const std::string& example) {
  const char* const end = text.data() + text.size();
  std::int64_t first = 0;
  auto [rest, error] = std::from_chars(text.data(), end, first);
  bool good = error == std::errc{} && first > 0;
  std::int64_t last = first;
  if (good && rest != end) {
    good = text.compare(static_cast<std::size_t>(rest - text.data()), 2, "..") == 0;
    if (good) {
      const auto second = std::from_chars(rest + 2, end, last);
      good = second.ec == std::errc{} && second.ptr == end && last >= first;
    }
  }
  ZP_CHECK(good, ErrorCode::config, "--steps is '" + text + "'",
           "expected a step or a range of steps", "use a form as in --steps " + example);
  return {first, last};
}

}  // namespace zeroproof::verification
