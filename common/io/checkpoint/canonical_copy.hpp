#pragma once

#include <cstddef>

#include "common/base/span.hpp"

namespace zeroproof {

/// Copies values in the form of a file: unchanged, except that every NaN becomes the canonical one
/// (R9). target: at least as many bytes, 4-byte aligned.
void copy_canonical(Span<const float> values, Span<std::byte> target);

}  // namespace zeroproof
