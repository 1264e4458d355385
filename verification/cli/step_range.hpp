#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace zeroproof::verification {

/// The value of --steps, "100..120" or "100", as first and last. Errors (ErrorCode::config): another form; the message
/// shows `example`.
std::pair<std::int64_t, std::int64_t> parse_step_range(const std::string& text,
                                                       const std::string& example);

}  // namespace zeroproof::verification
