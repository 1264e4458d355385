#include "cuda/host/cast.hpp"

#include "cuda/faults/fault.hpp"
#include "cuda/host/check.hpp"
#include "cuda/host/parallel_blocks.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {
namespace {

// bf16 and fp16 are structs around one std::uint16_t, so the kernels may look at the bits. (Not by
// &data()->bits: an empty span may have no data.)
static_assert(sizeof(bf16) == 2 && sizeof(fp16) == 2);

template <class Half>
const std::uint16_t* bits_of(Span<const Half> values) {
  return reinterpret_cast<const std::uint16_t*>(values.data());
}

template <class Half>
std::uint16_t* bits_of(Span<Half> values) {
  return reinterpret_cast<std::uint16_t*>(values.data());
}

template <class Source, class Target, class Kernel>
void run(const Exec& exec, const Source* source, Target* target, std::size_t numel, Kernel kernel) {
  parallel_blocks(exec, static_cast<std::int64_t>(numel), [&](std::int64_t begin, std::int64_t end) {
    kernel(source + begin, target + begin, end - begin);
  });
}

/// Z17: full vectors are left untouched, only the scalar tail is stored.
std::size_t first_stored(const Exec& exec, std::size_t numel) {
  return ZP_FAULT(exec, "Z17-vector-body-not-stored") ? numel / 16 * 16 : 0;
}

}  // namespace

void cast_to_bf16(const Exec& exec, Span<const float> source, Span<bf16> target) {
  require_same_numel("cast_to_bf16", "source", source.size(), "target", target.size());
  const std::size_t skip = first_stored(exec, source.size());
  run(exec, source.data() + skip, bits_of(target) + skip, source.size() - skip,
      simd_kernels(exec.isa).to_bf16);
}

void cast_to_fp16(const Exec& exec, Span<const float> source, Span<fp16> target) {
  require_same_numel("cast_to_fp16", "source", source.size(), "target", target.size());
  const std::size_t skip = first_stored(exec, source.size());
  run(exec, source.data() + skip, bits_of(target) + skip, source.size() - skip,
      simd_kernels(exec.isa).to_fp16);
}

void widen_bf16(const Exec& exec, Span<const bf16> source, Span<float> target) {
  require_same_numel("widen_bf16", "source", source.size(), "target", target.size());
  run(exec, bits_of(source), target.data(), source.size(), simd_kernels(exec.isa).from_bf16);
}

void widen_fp16(const Exec& exec, Span<const fp16> source, Span<float> target) {
  require_same_numel("widen_fp16", "source", source.size(), "target", target.size());
  run(exec, bits_of(source), target.data(), source.size(), simd_kernels(exec.isa).from_fp16);
}

}  // namespace zeroproof::cuda::host
