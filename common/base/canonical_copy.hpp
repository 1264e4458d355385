#pragma once

#include <cstddef>

#include "common/base/span.hpp"

namespace zeroproof {

/// Copies values in the form of a file or a digest: unchanged, except that every NaN becomes the
/// canonical one of its format (R9). target: at least as many bytes, aligned for the elements.
void copy_canonical(const TensorView& values, Span<std::byte> target);
void copy_canonical(Span<const float> values, Span<std::byte> target);

}  // namespace zeroproof
