#pragma once

#include <cstddef>

#include "common/base/span.hpp"

namespace zeroproof {

/// Numbers as a file has them: as they are, but for NaNs, of which it has one (R9). target: as many bytes at least,
/// from a place that 4 divides.
void copy_canonical(Span<const float> values, Span<std::byte> target);

}  // namespace zeroproof
