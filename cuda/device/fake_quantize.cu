#include "cuda/device/fake_quantize.hpp"

#include "common/contracts/scale_recipe.hpp"
#include "cuda/device/cast_element.cuh"
#include "cuda/device/elementwise.cuh"
#include "cuda/device/numels.hpp"
#include "cuda/host/calibration_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

constexpr std::uint32_t infinite = 0x7F800000U;
constexpr std::uint32_t smallest = 0x33800000U;  // 2^-24

/// Which block of a part's elements one is in.
struct AmaxOf {
  std::int64_t columns, block_rows, block_columns, across, first;
  const std::uint32_t* amax;  // [num_blocks]

  AmaxOf(const BlockGrid& grid, std::int64_t first_element, const std::uint32_t* of_blocks)
      : columns(grid.columns),
        block_rows(grid.block_rows),
        block_columns(grid.block_columns),
        across(grid.blocks_across()),
        first(first_element),
        amax(of_blocks) {}

  ZP_HOST_DEVICE std::uint32_t operator()(std::int64_t i) const {
    const std::int64_t row = (first + i) / columns, column = (first + i) - row * columns;
    const std::uint32_t bits = amax[row / block_rows * across + column / block_columns];
    return bits > infinite ? 0x7FFFFFFFU : bits;
  }
};

/// The integers of one number of bits.
struct Integers {
  float top, low;  // both as magnitudes

  explicit Integers(const FakeQuantization& options)
      : top(static_cast<float>((1 << (options.bits - 1)) - 1)), low(options.narrow ? top : top + 1.0F) {}

  ZP_HOST_DEVICE float code(float value, float scale) const {
    const std::uint32_t bits = bits_of(value * scale);
    const std::uint32_t sign = bits & sign_bit, magnitude = bits & ~sign_bit;
    if (magnitude > infinite) return float_of(0x7FFFFFFFU);
    const float limit = sign != 0U ? low : top;
    if (magnitude >= bits_of(limit)) return float_of(bits_of(limit) | sign);
    const float rounded = (float_of(magnitude) + 8388608.0F) - 8388608.0F;  // 2^23: no room for a fraction
    return float_of(bits_of(rounded) | sign);
  }
};

struct FakeInteger {
  static constexpr int pack_numel = 1;
  AmaxOf amax;
  Integers integers;
  const float* values;  // [numel]
  float* target;        // [numel]

  ZP_DEVICE void one(std::int64_t i) const {
    const float value = values[i];
    const std::uint32_t bits = amax(i);
    if (bits <= smallest) {
      target[i] = (bits_of(value) & ~sign_bit) > infinite ? value : 0.0F;
      return;
    }
    const float scale = integers.top / float_of(bits);
    target[i] = integers.code(value, scale) / scale;
  }

  ZP_DEVICE void pack(std::int64_t i) const { one(i); }
};

struct IntegerCode {
  static constexpr int pack_numel = 1;
  AmaxOf amax;
  Integers integers;
  const float* values;  // [numel]
  std::int8_t* codes;   // [numel]

  ZP_DEVICE void one(std::int64_t i) const {
    const std::uint32_t bits = amax(i);
    int code = 0;
    if (bits > smallest) {
      const float r = integers.code(values[i], integers.top / float_of(bits));
      if ((bits_of(r) & ~sign_bit) <= infinite) code = static_cast<int>(r);
    }
    codes[i] = static_cast<std::int8_t>(code);
  }

  ZP_DEVICE void pack(std::int64_t i) const { one(i); }
};

template <bool is_e4m3>
struct FakeFp8 {
  static constexpr int pack_numel = 1;
  AmaxOf amax;
  float top;
  const float* values;  // [numel]
  float* target;        // [numel]

  ZP_DEVICE void one(std::int64_t i) const {
    const std::uint32_t bits = amax(i);
    const float scale = top / (bits <= smallest ? 1.0F : float_of(bits));
    const float scaled = values[i] * scale;
    const float scale_inv = 1.0F / scale;
    const float widened = is_e4m3 ? float_of_e4m3(e4m3_bits(scaled)) : float_of_e5m2(e5m2_bits(scaled));
    target[i] = widened * scale_inv;
  }

  ZP_DEVICE void pack(std::int64_t i) const { one(i); }
};

}  // namespace

void fake_quantize(const Exec&, const FakeQuantization& options, std::int64_t first, Span<const float> values,
                   Span<const std::uint32_t> amax, Span<float> target) {
  require_same_numel("values", values, "target", target);
  require_fake_quantization("fake_quantize", options, first, values.size(), amax.size());
  if (values.empty()) return;
  const AmaxOf blocks(options.grid, first, amax.data());
  if (options.format == FakeFormat::integer) {
    run_elementwise(FakeInteger{blocks, Integers(options), values.data(), target.data()}, numel(values));
  } else if (options.format == FakeFormat::e4m3) {
    run_elementwise(FakeFp8<true>{blocks, largest_of(Fp8::e4m3), values.data(), target.data()},
                    numel(values));
  } else {
    run_elementwise(FakeFp8<false>{blocks, largest_of(Fp8::e5m2), values.data(), target.data()},
                    numel(values));
  }
}

void quantize_integer(const Exec&, const FakeQuantization& options, std::int64_t first,
                      Span<const float> values, Span<const std::uint32_t> amax, Span<std::int8_t> codes) {
  require_same_numel("values", values, "codes", codes);
  require_fake_quantization("quantize_integer", options, first, values.size(), amax.size());
  require_integer_codes(options);
  if (values.empty()) return;
  const AmaxOf blocks(options.grid, first, amax.data());
  run_elementwise(IntegerCode{blocks, Integers(options), values.data(), codes.data()}, numel(values));
}

}  // namespace zeroproof::cuda::device
