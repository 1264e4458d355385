#pragma once
// What must hold for any bytes whatever: a reader refuses them with a sentence, or everything it says is true.

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/span.hpp"

namespace zeroproof::tests {

/// Reads the bytes as a safetensors file in memory, with every tensor. Returns false if they were refused (with
/// the sentence in *refusal, if wanted). Throws std::logic_error if a promise is broken.
bool safetensors_accepts(Span<const std::byte> bytes, std::string* refusal = nullptr);

}  // namespace zeroproof::tests
