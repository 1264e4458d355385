#include <algorithm>
#include <bit>

#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {
namespace {

// The formats are structs around one integer, so the kernels may read the bits. (Not by
// &data()->bits: an empty span may have no data.)
static_assert(sizeof(bf16) == 2 && sizeof(fp16) == 2 && sizeof(e4m3) == 1 && sizeof(e5m2) == 1 &&
              sizeof(e8m0) == 1);

template <class Format>
auto bits_of(Span<const Format> values) {
  return reinterpret_cast<const decltype(Format::bits)*>(values.data());
}

template <class Format>
auto bits_of(Span<Format> values) {
  return reinterpret_cast<decltype(Format::bits)*>(values.data());
}

template <class Source, class Target, class Kernel>
void run(const Exec& exec, const Source* source, Target* target, std::size_t numel, Kernel kernel) {
  parallel_blocks(exec, static_cast<std::int64_t>(numel),
                  [&](std::int64_t begin, std::int64_t end) {
                    kernel(source + begin, target + begin, end - begin);
                  });
}

template <class Format, class Kernel>
void narrow(const char* op, const Exec& exec, Span<const float> source, Span<Format> target,
            Kernel kernel) {
  require_same_numel(op, "source", source.size(), "target", target.size());
  run(exec, source.data(), bits_of(target), source.size(), kernel);
}

std::uint32_t magnitude_of(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
}

void cast_to_e8m0_block(const float* source, std::uint8_t* target, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) {
    const std::uint32_t magnitude = magnitude_of(source[i]);
    const std::uint32_t exponent = magnitude >> 23, fraction = magnitude & 0x7FFFFFU;
    // Values with the leading bit clear and at most 2^-127, half of the smallest normal value, have
    // code 0.
    const bool up = fraction > (exponent == 0U ? 0x400000U : 0U);
    const std::uint32_t code = std::min(exponent + (up ? 1U : 0U), 254U);
    target[i] = static_cast<std::uint8_t>(magnitude > 0x7F800000U ? 255U : code);
  }
}

void widen_e8m0_block(const std::uint8_t* source, float* target, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) {
    const std::uint32_t code = source[i];
    const std::uint32_t bits = code == 0U ? 0x00400000U : code << 23;
    target[i] = std::bit_cast<float>(code == 255U ? 0x7FFFFFFFU : bits);
  }
}

/// A saturating kernel, followed by another code for magnitudes of `first` and above: `code`, with
/// the sign where `keep` has it.
template <class Kernel>
auto not_saturating(Kernel kernel, std::uint32_t first, std::uint32_t code, std::uint32_t keep) {
  return [=](const float* source, std::uint8_t* target, std::int64_t numel) {
    kernel(source, target, numel);
    for (std::int64_t i = 0; i < numel; ++i) {
      const std::uint32_t magnitude = magnitude_of(source[i]);
      const std::uint32_t replaced = code | (std::bit_cast<std::uint32_t>(source[i]) >> 24 & keep);
      if (magnitude >= first && magnitude <= 0x7F800000U)
        target[i] = static_cast<std::uint8_t>(replaced);
    }
  };
}

template <class Format, class Kernel>
void widen(const char* op, const Exec& exec, Span<const Format> source, Span<float> target,
           Kernel kernel) {
  require_same_numel(op, "source", source.size(), "target", target.size());
  run(exec, bits_of(source), target.data(), source.size(), kernel);
}

}  // namespace

void cast_to_bf16(const Exec& exec, Span<const float> source, Span<bf16> target) {
  narrow("cast_to_bf16", exec, source, target, simd_kernels(exec.isa).to_bf16);
}

void cast_to_fp16(const Exec& exec, Span<const float> source, Span<fp16> target) {
  narrow("cast_to_fp16", exec, source, target, simd_kernels(exec.isa).to_fp16);
}

void cast_to_e4m3(const Exec& exec, Span<const float> source, Span<e4m3> target) {
  narrow("cast_to_e4m3", exec, source, target, simd_kernels(exec.isa).to_e4m3);
}

void cast_to_e5m2(const Exec& exec, Span<const float> source, Span<e5m2> target) {
  narrow("cast_to_e5m2", exec, source, target, simd_kernels(exec.isa).to_e5m2);
}

void nonfinite_cast_to_e4m3(const Exec& exec, Span<const float> source, Span<e4m3> target) {
  constexpr std::uint32_t above_464 = 0x43E80001U;
  narrow("nonfinite_cast_to_e4m3", exec, source, target,
         not_saturating(simd_kernels(exec.isa).to_e4m3, above_464, 0x7FU, 0U));
}

void nonfinite_cast_to_e5m2(const Exec& exec, Span<const float> source, Span<e5m2> target) {
  constexpr std::uint32_t from_61440 = 0x47700000U;
  narrow("nonfinite_cast_to_e5m2", exec, source, target,
         not_saturating(simd_kernels(exec.isa).to_e5m2, from_61440, 0x7CU, 0x80U));
}

void cast_to_e8m0(const Exec& exec, Span<const float> source, Span<e8m0> target) {
  narrow("cast_to_e8m0", exec, source, target, cast_to_e8m0_block);
}

void widen_e8m0(const Exec& exec, Span<const e8m0> source, Span<float> target) {
  widen("widen_e8m0", exec, source, target, widen_e8m0_block);
}

void widen_bf16(const Exec& exec, Span<const bf16> source, Span<float> target) {
  widen("widen_bf16", exec, source, target, simd_kernels(exec.isa).from_bf16);
}

void widen_fp16(const Exec& exec, Span<const fp16> source, Span<float> target) {
  widen("widen_fp16", exec, source, target, simd_kernels(exec.isa).from_fp16);
}

void widen_e4m3(const Exec& exec, Span<const e4m3> source, Span<float> target) {
  widen("widen_e4m3", exec, source, target, simd_kernels(exec.isa).from_e4m3);
}

void widen_e5m2(const Exec& exec, Span<const e5m2> source, Span<float> target) {
  widen("widen_e5m2", exec, source, target, simd_kernels(exec.isa).from_e5m2);
}

void stochastic_cast_to_bf16(const Exec& exec, const RoundingDraw& draw, Span<const float> source,
                             Span<bf16> target) {
  require_same_numel("stochastic_cast_to_bf16", "source", source.size(), "target", target.size());
  const SimdKernels& kernels = simd_kernels(exec.isa);
  parallel_blocks(exec, numel(source), [&](std::int64_t begin, std::int64_t end) {
    const Draw from = {draw.seed, static_cast<std::uint32_t>(draw.step),
                       draw.first_index + static_cast<std::uint64_t>(begin)};
    kernels.to_bf16_stochastic(from, source.data() + begin, bits_of(target) + begin, end - begin);
  });
}

}  // namespace zeroproof::cuda::host
