#include "cuda/host/base/stream_copy.hpp"

#include <algorithm>
#include <cstdint>

#include "cuda/host/base/check.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

void copy_streamed(const Exec& exec, Span<const float> source, Span<float> target) {
  require_same_numel("copy_streamed", "source", source.size(), "target", target.size());
  simd_kernels(exec.isa).copy_streamed(source.data(), target.data(), numel(source));
}

void copy_bytes(const Exec& exec, Span<const std::byte> source, Span<std::byte> target,
                bool streamed) {
  require_same_numel("copy_bytes", "source", source.size(), "target", target.size());
  std::size_t done = 0;
  if (streamed && reinterpret_cast<std::uintptr_t>(target.data()) % sizeof(float) == 0) {
    const std::size_t words = source.size() / sizeof(float);
    simd_kernels(exec.isa).copy_streamed(reinterpret_cast<const float*>(source.data()),
                                         reinterpret_cast<float*>(target.data()),
                                         static_cast<std::int64_t>(words));
    done = words * sizeof(float);
  }
  std::ranges::copy(source.subspan(done), target.begin() + static_cast<std::ptrdiff_t>(done));
}

}  // namespace zeroproof::cuda::host
