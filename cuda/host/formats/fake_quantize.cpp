#include <algorithm>
#include <array>
#include <bit>

#include "common/contracts/scale_recipe.hpp"
#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/formats/calibration_checks.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda::host {
namespace {

constexpr std::uint32_t sign_of_fp32 = 0x80000000U;

/// Values shared by all elements of a block.
struct IntegerCodes {
  float g, top, low;  ///< low and top as magnitudes: -low is the lowest code
  bool zero;          ///< the amax is so small that there is one code

  IntegerCodes(const FakeQuantization& options, std::uint32_t amax) {
    const std::int32_t most = (1 << (options.bits - 1)) - 1;
    top = static_cast<float>(most);
    low = static_cast<float>(options.narrow ? most : most + 1);
    zero = amax <=
           std::bit_cast<std::uint32_t>(smallest_amax);  // magnitudes are ordered as their bits
    g = top / std::bit_cast<float>(amax > 0x7F800000U ? 0x7FFFFFFFU : amax);
  }

  /// Rounds to the nearest integer by adding a constant of at least 2^23, above which fp32 has no
  /// fraction bits.
  float of(float x) const {
    constexpr float shift = 0x1p23F;
    const float y = x * g;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(y);
    const float magnitude = std::bit_cast<float>(bits & ~sign_of_fp32);
    const float rounded = (magnitude + shift) - shift;
    const float limit = (bits & sign_of_fp32) != 0U ? low : top;
    const float code = magnitude > limit ? limit
                       : rounded > limit ? limit
                                         : rounded;  // a NaN passes through
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(code) | (bits & sign_of_fp32));
  }
};

void fake_integers(const Exec& exec, const FakeQuantization& options, std::int64_t first,
                   Span<const float> values, Span<const std::uint32_t> amax, Span<float> target) {
  parallel_blocks(exec, numel(values), [&](std::int64_t begin, std::int64_t end) {
    for_each_stretch(options.grid, first, begin, end,
                     [&](std::size_t block, std::int64_t left, std::int64_t right) {
                       const IntegerCodes codes(options, amax[block]);
                       const float* const x = values.data();
                       float* const f = target.data();
                       if (codes.zero) {
                         for (std::int64_t i = left; i < right; ++i)
                           f[i] = x[i] != x[i] ? x[i] : 0.0F;
                         return;
                       }
                       for (std::int64_t i = left; i < right; ++i) f[i] = codes.of(x[i]) / codes.g;
                     });
  });
}

/// Scaled, cast, widened and scaled back, one tile at a time.
template <class Format, class Cast, class Widen>
void fake_fp8_codes(const Exec& exec, const FakeQuantization& options, float top,
                    std::int64_t first, Span<const float> values, Span<const std::uint32_t> amax,
                    Span<float> target, Cast cast, Widen widen) {
  constexpr std::int64_t tile_numel = 1024;
  const Exec one_thread{.num_threads = 1, .isa = exec.isa};
  const auto scale_of = [&](std::size_t block) {
    const std::uint32_t bits = amax[block];
    if (bits <= std::bit_cast<std::uint32_t>(smallest_amax)) return top;
    return top / std::bit_cast<float>(bits > 0x7F800000U ? 0x7FFFFFFFU : bits);
  };
  parallel_blocks(exec, numel(values), [&](std::int64_t begin, std::int64_t end) {
    std::array<float, tile_numel> scaled;
    std::array<Format, tile_numel> codes;
    for (std::int64_t from = begin; from < end; from += tile_numel) {
      const std::int64_t to = std::min(from + tile_numel, end);
      const auto count = static_cast<std::size_t>(to - from);
      for_each_stretch(options.grid, first, from, to,
                       [&](std::size_t block, std::int64_t left, std::int64_t right) {
                         const float g = scale_of(block);
                         for (std::int64_t i = left; i < right; ++i)
                           scaled[i - from] = values.data()[i] * g;
                       });
      cast(one_thread, Span<const float>(scaled.data(), count), Span<Format>(codes.data(), count));
      widen(one_thread, Span<const Format>(codes.data(), count), Span<float>(scaled.data(), count));
      for_each_stretch(options.grid, first, from, to,
                       [&](std::size_t block, std::int64_t left, std::int64_t right) {
                         const float h = 1.0F / scale_of(block);
                         for (std::int64_t i = left; i < right; ++i)
                           target.data()[i] = scaled[i - from] * h;
                       });
    }
  });
}

}  // namespace

void fake_quantize(const Exec& exec, const FakeQuantization& options, std::int64_t first,
                   Span<const float> values, Span<const std::uint32_t> amax, Span<float> target) {
  require_same_numel("fake_quantize", "values", values.size(), "target", target.size());
  require_fake_quantization("fake_quantize", options, first, values.size(), amax.size());
  if (options.format == FakeFormat::integer) {
    fake_integers(exec, options, first, values, amax, target);
  } else if (options.format == FakeFormat::e4m3) {
    fake_fp8_codes<e4m3>(exec, options, largest_of(Fp8::e4m3), first, values, amax, target,
                         cast_to_e4m3, widen_e4m3);
  } else {
    fake_fp8_codes<e5m2>(exec, options, largest_of(Fp8::e5m2), first, values, amax, target,
                         cast_to_e5m2, widen_e5m2);
  }
}

void quantize_integer(const Exec& exec, const FakeQuantization& options, std::int64_t first,
                      Span<const float> values, Span<const std::uint32_t> amax,
                      Span<std::int8_t> codes) {
  require_same_numel("quantize_integer", "values", values.size(), "codes", codes.size());
  require_fake_quantization("quantize_integer", options, first, values.size(), amax.size());
  require_integer_codes(options);
  parallel_blocks(exec, numel(values), [&](std::int64_t begin, std::int64_t end) {
    for_each_stretch(options.grid, first, begin, end,
                     [&](std::size_t block, std::int64_t left, std::int64_t right) {
                       const IntegerCodes of_block(options, amax[block]);
                       for (std::int64_t i = left; i < right; ++i) {
                         const float r = of_block.zero ? 0.0F : of_block.of(values.data()[i]);
                         codes.data()[i] = r == r ? static_cast<std::int8_t>(static_cast<int>(r))
                                                  : std::int8_t{0};
                       }
                     });
  });
}

}  // namespace zeroproof::cuda::host
