#pragma once
// Escapes text for XML and HTML.

#include <cstdint>
#include <string>

namespace zeroproof::verification {

/// Escapes markup, drops control characters, and replaces bytes that are no UTF-8. In attributes
/// line breaks are written as references, which survive normalisation.
enum class Within : std::uint8_t { attribute, element };

std::string escaped(const std::string& text, Within within = Within::attribute);

}  // namespace zeroproof::verification
