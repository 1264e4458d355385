#include <atomic>

#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

bool unscale(const Exec& exec, float inv_scale, Span<const float> grad_sum,
             Span<float> unscaled_grad) {
  require_same_numel("unscale", "grad_sum", grad_sum.size(), "unscaled_grad", unscaled_grad.size());
  const SimdKernels& kernels = simd_kernels(exec.isa);
  std::atomic<std::uint32_t> found{0};
  parallel_blocks(exec, numel(grad_sum), [&](std::int64_t begin, std::int64_t end) {
    found |= kernels.unscale(inv_scale, grad_sum.data() + begin, unscaled_grad.data() + begin,
                             end - begin);
  });
  return found != 0;
}

}  // namespace zeroproof::cuda::host
