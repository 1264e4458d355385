#include "cuda/host/adam.hpp"

#include "cuda/host/adam_faults.hpp"
#include "cuda/host/check.hpp"
#include "cuda/host/parallel_blocks.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

void adamw_update(const Exec& exec, const StepScalars& scalars, Span<const float> grad, Span<float> master,
                  Span<float> exp_avg, Span<float> exp_avg_sq) {
  require_same_numel("adamw_update", "grad", grad.size(), "master", master.size());
  require_same_numel("adamw_update", "grad", grad.size(), "exp_avg", exp_avg.size());
  require_same_numel("adamw_update", "grad", grad.size(), "exp_avg_sq", exp_avg_sq.size());
#if defined(ZP_WITH_FAULTS)
  if (faulty_adamw(exec, scalars, grad, master, exp_avg, exp_avg_sq)) return;
#endif
  const SimdKernels& kernels = simd_kernels(exec.isa);
  parallel_blocks(exec, numel(grad), [&](std::int64_t begin, std::int64_t end) {
    kernels.adamw(scalars, grad.data() + begin, master.data() + begin, exp_avg.data() + begin,
                  exp_avg_sq.data() + begin, end - begin);
  });
}

}  // namespace zeroproof::cuda::host
