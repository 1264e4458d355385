#include "cuda/device/cast.hpp"

#include "cuda/device/cast_element.cuh"
#include "cuda/device/elementwise.cuh"
#include "cuda/device/numels.hpp"
#include "cuda/device/stage.hpp"

namespace zeroproof::cuda::device {

namespace {

static_assert(sizeof(bf16) == 2 && sizeof(fp16) == 2, "kernels read the formats as 16-bit words");

ZP_HOST_DEVICE inline std::uint16_t narrow(float value, bf16) { return bf16_bits(value); }
ZP_HOST_DEVICE inline std::uint16_t narrow(float value, fp16) { return fp16_bits(value); }
ZP_HOST_DEVICE inline float widen(bf16 value) { return float_of_bf16(value.bits); }
ZP_HOST_DEVICE inline float widen(fp16 value) { return float_of_fp16(value.bits); }

/// fp32 to a 16-bit format: two packs in, one out; the earlier element of a word is the lower half.
template <class Format>
struct Narrow {
  static constexpr int pack_numel = 8;
  const float* source;  // [numel]
  Format* target;       // [numel]

  __device__ void one(std::int64_t i) const { target[i].bits = narrow(source[i], Format{}); }

  __device__ void pack(std::int64_t i) const {
    const Pack<float> in[2] = {load_pack(source + i), load_pack(source + i + 4)};
    Pack<std::uint32_t> out;
    for (int k = 0; k < 4; ++k) {
      const std::uint32_t low = narrow(in[k / 2].v[k % 2 * 2], Format{});
      const std::uint32_t high = narrow(in[k / 2].v[k % 2 * 2 + 1], Format{});
      out.v[k] = low | (high << 16);
    }
    store_pack(reinterpret_cast<std::uint32_t*>(target + i), out);
  }

  __device__ void finish() const {}
};

/// A 16-bit format to fp32: one pack in, two out.
template <class Format>
struct Widen {
  static constexpr int pack_numel = 8;
  const Format* source;  // [numel]
  float* target;         // [numel]

  __device__ void one(std::int64_t i) const { target[i] = widen(source[i]); }

  __device__ void pack(std::int64_t i) const {
    const Pack<std::uint32_t> in = load_pack(reinterpret_cast<const std::uint32_t*>(source + i));
    Pack<float> out[2];
    for (int k = 0; k < 4; ++k) {
      out[k / 2].v[k % 2 * 2] = widen(Format{static_cast<std::uint16_t>(in.v[k] & 0xFFFFU)});
      out[k / 2].v[k % 2 * 2 + 1] = widen(Format{static_cast<std::uint16_t>(in.v[k] >> 16)});
    }
    store_pack(target + i, out[0]);
    store_pack(target + i + 4, out[1]);
  }

  __device__ void finish() const {}
};

template <class Operation, class Source, class Target>
void convert(Span<const Source> source, Span<Target> target) {
  require_same_numel("source", source, "target", target);
  if (source.empty()) return;
  Stage stage;
  const Operation operation{stage.upload(source), stage.output(target)};
  run_elementwise(operation, numel(source), operation.source, operation.target);
  stage.download(target);
}

}  // namespace

void cast_to_bf16(const Exec&, Span<const float> source, Span<bf16> target) {
  convert<Narrow<bf16>>(source, target);
}

void cast_to_fp16(const Exec&, Span<const float> source, Span<fp16> target) {
  convert<Narrow<fp16>>(source, target);
}

void widen_bf16(const Exec&, Span<const bf16> source, Span<float> target) {
  convert<Widen<bf16>>(source, target);
}

void widen_fp16(const Exec&, Span<const fp16> source, Span<float> target) {
  convert<Widen<fp16>>(source, target);
}

}  // namespace zeroproof::cuda::device
