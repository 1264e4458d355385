#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Rounding that splits a master into a bf16 parameter and 16 bits; neither is the cast of R8
/// [SPLIT:no_even].
enum class SplitRule : std::uint8_t {
  nearest,            ///< to nearest, ties away from zero; a NaN stays one
  transformer_engine  ///< the same without a special case for non-finite values: only the sum of bits
};

/// The master as a bf16 parameter and the remainder of the rounding.
///
/// Shapes   master, param, remainder: [numel], numel >= 0; the buffers do not overlap.
/// Order    with b the bits of an element, all in 32 bits: param bits = (b + 0x8000) >> 16, remainder = b & 0xFFFF.
/// Exact    bitwise. Subnormals and the sign of zero are kept; from 0x7F7F8000 up (in magnitude) the parameter is
///          infinite and the remainder still identifies the number.
/// Special  nearest: every NaN has param 0x7FFF and remainder 0.
///          transformer_engine: no exception. A NaN becomes an infinity (0x7F800001 to 0x7F807FFF), a NaN, or a zero of
///          the other sign (0x7FFF8000 to 0x7FFFFFFF); the master that is joined from it is that NaN, bit for bit.
/// Errors   invalid_argument if the numels differ.
/// Contract R8. Source: [SPLIT:away].
using SplitMasterFn = void(const Exec&, SplitRule, Span<const float> master, Span<bf16> param,
                           Span<std::uint16_t> remainder);

/// The master from both parts. For parts made by SplitMasterFn it is the original master, bit for
/// bit (a NaN: a NaN).
///
/// Shapes   param, remainder, master: [numel], numel >= 0; the buffers do not overlap.
/// Order    with p the bits of param and r the remainder, all modulo 2^32: master bits = (p << 16) + r, less 0x10000 if
///          r >= 0x8000.
/// Exact    bitwise, for every pair, also for one that no split produces.
/// Special  nearest: if param is a NaN the master is a NaN, whatever the remainder.
///          transformer_engine: no exception.
/// Errors   invalid_argument if the numels differ.
/// Contract R8, R9.
using JoinMasterFn = void(const Exec&, SplitRule, Span<const bf16> param,
                          Span<const std::uint16_t> remainder, Span<float> master);

}  // namespace zeroproof
