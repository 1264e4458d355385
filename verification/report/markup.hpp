#pragma once
// Any text as a part of XML and HTML.

#include <cstdint>
#include <string>

namespace zeroproof::verification {

/// Markup escaped, control characters left out, bytes that are no UTF-8 replaced. In attributes line
/// breaks survive normalisation only as references.
enum class Within : std::uint8_t { attribute, element };

std::string escaped(const std::string& text, Within within = Within::attribute);

}  // namespace zeroproof::verification
