// Scales of 8-bit parameters, and codes by them, with faults: implementations of R22.

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "common/base/float_formats.hpp"
#include "cuda/host/operations.hpp"
#include "verification/faults/planted/fault_context.hpp"

namespace zeroproof::verification {
namespace {

namespace host = cuda::host;

/// Every tensor is scaled for the format of the forward pass.
void scale_of_other_format(const Exec& exec, const CurrentScaling& options,
                           Span<const std::uint32_t> amax, Span<float> scale,
                           Span<float> scale_inv) {
  CurrentScaling forward = options;
  forward.format = Fp8::e4m3;
  host::current_scales(exec, forward, amax, scale, scale_inv);
}

// Values are rounded to bf16 before they are rounded to the format.
void cast_twice(const Exec& exec, const BlockQuantization& options, std::int64_t first,
                Span<const float> values, Span<const float> scale, Span<e4m3> target) {
  BlockQuantization through = options;
  through.value = QuantizedValue::through_bf16;
  host::block_quantize_e4m3(exec, through, first, values, scale, target);
}

void cast_twice_e5m2(const Exec& exec, const BlockQuantization& options, std::int64_t first,
                     Span<const float> values, Span<const float> scale, Span<e5m2> target) {
  BlockQuantization through = options;
  through.value = QuantizedValue::through_bf16;
  host::block_quantize_e5m2(exec, through, first, values, scale, target);
}

/// The scale after that of a block; the last block uses its own.
std::vector<float> one_further(Span<const float> scale) {
  std::vector<float> next(scale.begin(), scale.end());
  if (!next.empty()) std::copy(scale.begin() + 1, scale.end(), next.begin());
  return next;
}

void scale_of_neighbour(const Exec& exec, const BlockQuantization& options, std::int64_t first,
                        Span<const float> values, Span<const float> scale, Span<e4m3> target) {
  host::block_quantize_e4m3(exec, options, first, values, one_further(scale), target);
}

void scale_of_neighbour_e5m2(const Exec& exec, const BlockQuantization& options, std::int64_t first,
                             Span<const float> values, Span<const float> scale, Span<e5m2> target) {
  host::block_quantize_e5m2(exec, options, first, values, one_further(scale), target);
}

/// The finite magnitudes of e4m3 in increasing order: the code book.
const std::array<float, 127>& magnitudes_of_e4m3() {
  static const std::array<float, 127> all = [] {
    std::array<float, 127> made;
    for (std::size_t code = 0; code < made.size(); ++code)
      made[code] = to_float(e4m3{static_cast<std::uint8_t>(code)});
    return made;
  }();
  return all;
}

/// The search for a code descends to the largest magnitude that is not above the value, and ends
/// there: the branch that compares with the middle of two codes is missing.
void code_one_branch_short(const Exec& exec, const BlockQuantization& options, std::int64_t first,
                           Span<const float> values, Span<const float> scale, Span<e4m3> target) {
  host::block_quantize_e4m3(exec, options, first, values, scale, target);
  const BlockGrid& grid = options.grid;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t place = first + static_cast<std::int64_t>(i);
    const std::int64_t block = place / grid.columns / grid.block_rows * grid.blocks_across() +
                               place % grid.columns / grid.block_columns;
    const bool direct = options.value == QuantizedValue::direct;
    const float value = direct ? values[i] : to_float(to_bf16(values[i]));
    const float y = value * scale[block];
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(y);
    const float magnitude = std::bit_cast<float>(bits & 0x7FFFFFFFU);
    if (!(magnitude < magnitudes_of_e4m3().back())) continue;  // saturated, or NaN
    const auto above = std::ranges::upper_bound(magnitudes_of_e4m3(), magnitude);
    const auto code = static_cast<std::uint32_t>(above - magnitudes_of_e4m3().begin()) - 1U;
    target[i].bits = static_cast<std::uint8_t>((bits >> 31 << 7) | code);
  }
}

}  // namespace

bool put_wrong_scales(std::string_view fault, cuda::KernelTable& ops) {
  if (fault == "scale-of-other-format") {
    ops.current_scales = scale_of_other_format;
  } else if (fault == "cast-twice") {
    ops.block_quantize_e4m3 = cast_twice;
    ops.block_quantize_e5m2 = cast_twice_e5m2;
  } else if (fault == "block-scale-of-neighbour") {
    ops.block_quantize_e4m3 = scale_of_neighbour;
    ops.block_quantize_e5m2 = scale_of_neighbour_e5m2;
  } else if (fault == "code-one-branch-short") {
    ops.block_quantize_e4m3 = code_one_branch_short;
  } else {
    return false;
  }
  return true;
}

}  // namespace zeroproof::verification
