#pragma once
// What must hold for any text as a file of rules.

#include <string_view>

namespace zeroproof::tests {

/// True if the text is a file of rules and a model of two layers can be held against it. Errors: std::logic_error, for
/// a promise that was broken; whatever else the reader throws that is no Error.
bool quantization_accepts(std::string_view text);

}  // namespace zeroproof::tests
