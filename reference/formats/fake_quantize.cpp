#include <bit>
#include <cmath>
#include <limits>

#include "common/base/error.hpp"
#include "common/contracts/scale_recipe.hpp"
#include "reference/checks.hpp"
#include "reference/formats/calibration_checks.hpp"
#include "reference/formats/fp8.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

/// The magnitude with these bits; every pattern above infinity is a NaN.
float magnitude_of(std::uint32_t amax) {
  return amax > 0x7F800000U ? std::numeric_limits<float>::quiet_NaN() : std::bit_cast<float>(amax);
}

/// R26, r: x as a multiple of 1 / g.
float integer_code(const FakeQuantization& options, float x, float g) {
  const float top = std::ldexp(1.0F, options.bits - 1) - 1.0F;
  const float low = options.narrow ? -top : -top - 1.0F;
  const float y = x * g;
  float r = std::nearbyint(y);  // R3: to nearest, ties to even
  if (r > top) r = top;
  if (r < low) r = low;
  return r;
}

float integer_scale(const FakeQuantization& options, float a) {
  return (std::ldexp(1.0F, options.bits - 1) - 1.0F) / a;
}

float fake_integer(const FakeQuantization& options, float x, float a) {
  if (a <= smallest_amax) return std::isnan(x) ? x : 0.0F;
  const float g = integer_scale(options, a);
  return integer_code(options, x, g) / g;
}

float fake_fp8(const Fp8Format& format, float top, float x, float a) {
  if (a <= smallest_amax) a = 1.0F;
  const float g = top / a;
  const float y = x * g;
  const std::uint8_t c = to_fp8(y, format, Overflow::saturate);
  const float h = 1.0F / g;
  return from_fp8(c, format) * h;
}

/// R22: the block of element e.
std::size_t block_at(const BlockGrid& grid, std::int64_t e) {
  const std::int64_t row = e / grid.columns, column = e % grid.columns;
  return static_cast<std::size_t>(row / grid.block_rows * grid.blocks_across() +
                                  column / grid.block_columns);
}

}  // namespace

void fake_quantize(const Exec&, const FakeQuantization& options, std::int64_t first,
                   Span<const float> values, Span<const std::uint32_t> amax, Span<float> target) {
  check_same_numel("fake_quantize", "values", values.size(), "target", target.size());
  check_fake_quantization("fake_quantize", options, first, numel(values), numel(amax));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float a =
        magnitude_of(amax[block_at(options.grid, first + static_cast<std::int64_t>(i))]);
    switch (options.format) {
      case FakeFormat::integer:
        target[i] = fake_integer(options, values[i], a);
        break;
      case FakeFormat::e4m3:
        target[i] = fake_fp8(e4m3_format, largest_of(Fp8::e4m3), values[i], a);
        break;
      case FakeFormat::e5m2:
        target[i] = fake_fp8(e5m2_format, largest_of(Fp8::e5m2), values[i], a);
        break;
    }
  }
}

void quantize_integer(const Exec&, const FakeQuantization& options, std::int64_t first,
                      Span<const float> values, Span<const std::uint32_t> amax,
                      Span<std::int8_t> codes) {
  check_same_numel("quantize_integer", "values", values.size(), "codes", codes.size());
  check_fake_quantization("quantize_integer", options, first, numel(values), numel(amax));
  ZP_CHECK(options.format == FakeFormat::integer && options.bits <= 8, ErrorCode::invalid_argument,
           "quantize_integer: the codes are not integers of at most 8 bits", "a code has one byte",
           "use block_quantize_e4m3 and block_quantize_e5m2 for fp8, fake_quantize for more bits");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float a =
        magnitude_of(amax[block_at(options.grid, first + static_cast<std::int64_t>(i))]);
    const float r =
        a <= smallest_amax ? 0.0F : integer_code(options, values[i], integer_scale(options, a));
    codes[i] = std::isnan(r) ? std::int8_t{0} : static_cast<std::int8_t>(r);
  }
}

}  // namespace zeroproof::reference
