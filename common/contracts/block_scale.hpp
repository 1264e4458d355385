#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/cast.hpp"
#include "common/layout/block_grid.hpp"

namespace zeroproof {

/// The value of a master that is quantized: its own, or that of the bf16 parameter, which rounds
/// twice on purpose.
enum class QuantizedValue : std::uint8_t { direct, through_bf16 };

/// All arguments of a quantization but numbers.
struct BlockQuantization {
  BlockGrid grid;
  QuantizedValue value = QuantizedValue::direct;
  Overflow overflow = Overflow::saturate;
};

/// Largest magnitudes of blocks, as integers, raised to those of a part of the tensor.
///
/// Shapes   values: [numel], elements first .. first + numel - 1 of the tensor, row after row; amax: [num_blocks] of
///          the grid, blocks of a row of blocks side by side. Buffers do not overlap.
/// Units    bits & 0x7FFFFFFF of v, v = the element (direct) or the element rounded to bf16 as in R8 and widened
///          (through_bf16); a NaN counts as 0x7FFFFFFF, whatever its bits.
/// Order    none: amax of a block = the unsigned maximum of its old value and of its elements among values. A block
///          without elements among values keeps its bits.
/// Exact    integer. Ranks that have parts of a tensor start from 0 and take the unsigned maximum of theirs.
/// Errors   invalid_argument if the grid is not legal (BlockGrid::is_legal), first < 0, the part reaches beyond the
///          tensor, or amax has another number of elements than there are blocks; nothing is written then.
/// Contract R22.
using BlockAmaxFn = void(const Exec&, const BlockGrid&, QuantizedValue, std::int64_t first,
                         Span<const float> values, Span<std::uint32_t> amax);

/// A part of a tensor in an 8-bit format, by the scales of its blocks.
///
/// Shapes   values, target: [numel], elements first .. first + numel - 1 of the tensor; scale: [num_blocks], as amax
///          above. Buffers do not overlap.
/// Order    v as above; y = v * scale[block], one fp32 rounding, always evaluated; target = y rounded to the format as
///          in R8, by `overflow`.
/// Exact    bitwise, whatever the scales: infinite, NaN and negative ones are multiplied like others. Subnormal
///          products are kept; -0 stays -0.
/// Errors   invalid_argument as above, or if the numels differ; nothing is written then.
/// Contract R8, R22.
using BlockQuantizeE4m3Fn = void(const Exec&, const BlockQuantization&, std::int64_t first,
                                 Span<const float> values, Span<const float> scale,
                                 Span<e4m3> target);
using BlockQuantizeE5m2Fn = void(const Exec&, const BlockQuantization&, std::int64_t first,
                                 Span<const float> values, Span<const float> scale,
                                 Span<e5m2> target);

/// A part of a tensor from an 8-bit format.
///
/// Shapes   source, target: [numel], elements first .. first + numel - 1 of the tensor; scale_inv: [num_blocks].
///          Buffers do not overlap.
/// Order    target = w * scale_inv[block], w the code widened (exact), one fp32 rounding, always evaluated.
/// Exact    bitwise; infinities of e5m2 and NaN are multiplied like others.
/// Errors   invalid_argument as above; nothing is written then.
/// Contract R8, R22.
using BlockDequantizeE4m3Fn = void(const Exec&, const BlockGrid&, std::int64_t first,
                                   Span<const e4m3> source, Span<const float> scale_inv,
                                   Span<float> target);
using BlockDequantizeE5m2Fn = void(const Exec&, const BlockGrid&, std::int64_t first,
                                   Span<const e5m2> source, Span<const float> scale_inv,
                                   Span<float> target);

}  // namespace zeroproof
