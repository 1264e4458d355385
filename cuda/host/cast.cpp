#include "cuda/host/cast.hpp"

#include "cuda/host/check.hpp"
#include "cuda/host/parallel_blocks.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {
namespace {

// The formats are structs around one integer, so the kernels may look at the bits. (Not by &data()->bits: an empty span
// may have no data.)
static_assert(sizeof(bf16) == 2 && sizeof(fp16) == 2 && sizeof(e4m3) == 1 && sizeof(e5m2) == 1);

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
  parallel_blocks(exec, static_cast<std::int64_t>(numel), [&](std::int64_t begin, std::int64_t end) {
    kernel(source + begin, target + begin, end - begin);
  });
}

template <class Format, class Kernel>
void narrow(const char* op, const Exec& exec, Span<const float> source, Span<Format> target, Kernel kernel) {
  require_same_numel(op, "source", source.size(), "target", target.size());
  run(exec, source.data(), bits_of(target), source.size(), kernel);
}

template <class Format, class Kernel>
void widen(const char* op, const Exec& exec, Span<const Format> source, Span<float> target, Kernel kernel) {
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
