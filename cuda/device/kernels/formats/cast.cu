#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/formats/cast_element.cuh"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

static_assert(sizeof(bf16) == 2 && sizeof(fp16) == 2 && sizeof(e4m3) == 1 && sizeof(e5m2) == 1 &&
                  sizeof(e8m0) == 1,
              "kernels read the formats as parts of 32-bit words");

ZP_HOST_DEVICE inline std::uint32_t narrow(float value, bf16) { return bf16_bits(value); }
ZP_HOST_DEVICE inline std::uint32_t narrow(float value, fp16) { return fp16_bits(value); }
ZP_HOST_DEVICE inline std::uint32_t narrow(float value, e4m3) { return e4m3_bits(value); }
ZP_HOST_DEVICE inline std::uint32_t narrow(float value, e5m2) { return e5m2_bits(value); }
ZP_HOST_DEVICE inline std::uint32_t narrow(float value, e8m0) { return e8m0_bits(value); }

/// The formats whose casts do not saturate.
struct NonfiniteE4m3 : e4m3 {};
struct NonfiniteE5m2 : e5m2 {};
ZP_HOST_DEVICE inline std::uint32_t narrow(float value, NonfiniteE4m3) {
  return nonfinite_e4m3_bits(value);
}
ZP_HOST_DEVICE inline std::uint32_t narrow(float value, NonfiniteE5m2) {
  return nonfinite_e5m2_bits(value);
}
ZP_HOST_DEVICE inline float widen(bf16 value) { return float_of_bf16(value.bits); }
ZP_HOST_DEVICE inline float widen(fp16 value) { return float_of_fp16(value.bits); }
ZP_HOST_DEVICE inline float widen(e4m3 value) { return float_of_e4m3(value.bits); }
ZP_HOST_DEVICE inline float widen(e5m2 value) { return float_of_e5m2(value.bits); }
ZP_HOST_DEVICE inline float widen(e8m0 value) { return float_of_e8m0(value.bits); }

/// Layout of elements of a format in a 32-bit word: the earlier element in the lower bits.
template <class Format>
struct Word {
  using Bits = decltype(Format::bits);
  static constexpr int numel = 4 / sizeof(Format);
  static constexpr int num_bits = 8 * sizeof(Format);
  static constexpr int num_packs = numel;  // fp32 packs per pack of the format
  static constexpr int pack_numel = 4 * numel;
};

/// fp32 to a shorter format: several packs in, one out. Rule: the format, or a type that selects
/// the rounding.
template <class Format, class Rule = Format>
struct Narrow {
  static constexpr int pack_numel = Word<Format>::pack_numel;
  const float* source;  // [numel]
  Format* target;       // [numel]

  ZP_DEVICE void one(std::int64_t i) const {
    target[i].bits = static_cast<typename Word<Format>::Bits>(narrow(source[i], Rule{}));
  }

  ZP_DEVICE void pack(std::int64_t i) const {
    Pack<float> in[Word<Format>::num_packs];
    ZP_UNROLL
    for (int n = 0; n < Word<Format>::num_packs; ++n) in[n] = load_pack(source + i + 4 * n);
    Pack<std::uint32_t> out{};
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) {
      const std::uint32_t bits = narrow(in[k / 4].v[k % 4], Rule{});
      out.v[k / Word<Format>::numel] |= bits << (k % Word<Format>::numel * Word<Format>::num_bits);
    }
    store_pack(reinterpret_cast<std::uint32_t*>(target + i), out);
  }
};

/// A shorter format to fp32: one pack in, several out.
template <class Format>
struct Widen {
  static constexpr int pack_numel = Word<Format>::pack_numel;
  const Format* source;  // [numel]
  float* target;         // [numel]

  ZP_DEVICE void one(std::int64_t i) const { target[i] = widen(source[i]); }

  ZP_DEVICE void pack(std::int64_t i) const {
    const Pack<std::uint32_t> in = load_pack(reinterpret_cast<const std::uint32_t*>(source + i));
    Pack<float> out[Word<Format>::num_packs];
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) {
      const std::uint32_t shifted =
          in.v[k / Word<Format>::numel] >> (k % Word<Format>::numel * Word<Format>::num_bits);
      out[k / 4].v[k % 4] = widen(Format{static_cast<typename Word<Format>::Bits>(shifted)});
    }
    ZP_UNROLL
    for (int n = 0; n < Word<Format>::num_packs; ++n) store_pack(target + i + 4 * n, out[n]);
  }
};

template <class Operation, class Source, class Target>
void convert(Span<const Source> source, Span<Target> target) {
  require_same_numel("source", source, "target", target);
  if (source.empty()) return;
  const Operation operation{source.data(), target.data()};
  run_elementwise(operation, numel(source), operation.source, operation.target);
}

}  // namespace

void cast_to_bf16(const Exec&, Span<const float> source, Span<bf16> target) {
  convert<Narrow<bf16>>(source, target);
}

void cast_to_fp16(const Exec&, Span<const float> source, Span<fp16> target) {
  convert<Narrow<fp16>>(source, target);
}

void cast_to_e4m3(const Exec&, Span<const float> source, Span<e4m3> target) {
  convert<Narrow<e4m3>>(source, target);
}

void cast_to_e5m2(const Exec&, Span<const float> source, Span<e5m2> target) {
  convert<Narrow<e5m2>>(source, target);
}

void nonfinite_cast_to_e4m3(const Exec&, Span<const float> source, Span<e4m3> target) {
  convert<Narrow<e4m3, NonfiniteE4m3>>(source, target);
}

void nonfinite_cast_to_e5m2(const Exec&, Span<const float> source, Span<e5m2> target) {
  convert<Narrow<e5m2, NonfiniteE5m2>>(source, target);
}

void cast_to_e8m0(const Exec&, Span<const float> source, Span<e8m0> target) {
  convert<Narrow<e8m0>>(source, target);
}

void widen_e8m0(const Exec&, Span<const e8m0> source, Span<float> target) {
  convert<Widen<e8m0>>(source, target);
}

void widen_bf16(const Exec&, Span<const bf16> source, Span<float> target) {
  convert<Widen<bf16>>(source, target);
}

void widen_fp16(const Exec&, Span<const fp16> source, Span<float> target) {
  convert<Widen<fp16>>(source, target);
}

void widen_e4m3(const Exec&, Span<const e4m3> source, Span<float> target) {
  convert<Widen<e4m3>>(source, target);
}

void widen_e5m2(const Exec&, Span<const e5m2> source, Span<float> target) {
  convert<Widen<e5m2>>(source, target);
}

}  // namespace zeroproof::cuda::device
