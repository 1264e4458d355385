#pragma once

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// fp32 to a 16-bit format.
///
/// Shapes   source, target: [numel], numel >= 0; the buffers do not overlap.
/// Order    one rounding per element, to nearest, ties to even.
/// Exact    bitwise. Subnormals are kept; too large becomes infinity; NaN stays NaN (payload free, R9).
/// Errors   invalid_argument if the numels differ.
/// Contract R8.
using CastToBf16Fn = void(const Exec&, Span<const float> source, Span<bf16> target);
using CastToFp16Fn = void(const Exec&, Span<const float> source, Span<fp16> target);

/// A 16-bit format to fp32; always exact.
///
/// Shapes   source, target: [numel], numel >= 0; the buffers do not overlap.
/// Errors   invalid_argument if the numels differ.
/// Contract R8.
using WidenBf16Fn = void(const Exec&, Span<const bf16> source, Span<float> target);
using WidenFp16Fn = void(const Exec&, Span<const fp16> source, Span<float> target);

}  // namespace zeroproof
