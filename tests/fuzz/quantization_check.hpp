#pragma once
// Invariants for any text as a file of rules.

#include <string_view>

namespace zeroproof::tests {

/// True if the text is a file of rules and applies to a model of two layers. Errors:
/// std::logic_error, for a violated invariant; exceptions of the reader other than Error.
bool quantization_accepts(std::string_view text);

}  // namespace zeroproof::tests
