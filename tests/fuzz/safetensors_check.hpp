#pragma once
// Invariant for any bytes: a reader rejects them with an error sentence, or returns consistent
// values.

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/span.hpp"

namespace zeroproof::tests {

/// Reads the bytes as a safetensors file in memory, with every tensor. Returns false if they were
/// rejected (with the sentence in *refusal, if not null). Throws std::logic_error if an invariant
/// is violated.
bool safetensors_accepts(Span<const std::byte> bytes, std::string* refusal = nullptr);

}  // namespace zeroproof::tests
