#include "cuda/host/stream_copy.hpp"

#include "cuda/host/check.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

void copy_streamed(const Exec& exec, Span<const float> source, Span<float> target) {
  require_same_numel("copy_streamed", "source", source.size(), "target", target.size());
  simd_kernels(exec.isa).copy_streamed(source.data(), target.data(), numel(source));
}

}  // namespace zeroproof::cuda::host
