#include "cuda/host/fused_step.hpp"

#include <array>
#include <mutex>
#include <string>

#include "cuda/host/check.hpp"
#include "cuda/host/limb_deposit.hpp"
#include "cuda/host/parallel_blocks.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

bool fused_finite_and_norm(const Exec& exec, float inv_scale, Span<const float> grad_sum, NormLimbs& limbs) {
  const SimdKernels& kernels = simd_kernels(exec.isa);
  std::mutex mutex;
  bool found_inf = false;
  parallel_blocks(exec, numel(grad_sum), [&](std::int64_t begin, std::int64_t end) {
    std::array<double, block_numel / norm_chunk_numel> sums;
    const std::uint32_t found =
        kernels.unscale_chunk_sums(inv_scale, grad_sum.data() + begin, end - begin, sums.data());
    NormLimbs mine;
    const std::int64_t chunks = (end - begin + norm_chunk_numel - 1) / norm_chunk_numel;
    for (std::int64_t c = 0; c < chunks; ++c) deposit(sums[static_cast<std::size_t>(c)], mine);
    const std::lock_guard lock(mutex);
    merge(mine, limbs);
    found_inf = found_inf || found != 0;
  });
  return found_inf;
}

void fused_update(const Exec& exec, const StepScalars& scalars, float clip_coef, Span<const float> grad_sum,
                  Span<float> master, Span<float> exp_avg, Span<float> exp_avg_sq, const TensorView& param) {
  require_same_numel("fused_update", "grad_sum", grad_sum.size(), "master", master.size());
  require_same_numel("fused_update", "grad_sum", grad_sum.size(), "exp_avg", exp_avg.size());
  require_same_numel("fused_update", "grad_sum", grad_sum.size(), "exp_avg_sq", exp_avg_sq.size());
  require_same_numel("fused_update", "grad_sum", grad_sum.size(), "param",
                     static_cast<std::size_t>(param.numel));
  const int kind = param.dtype == DType::fp32 ? 0 : param.dtype == DType::bf16 ? 1 : 2;
  ZP_CHECK(kind != 2 || param.dtype == DType::fp16, ErrorCode::invalid_argument,
           "fused_update: param is " + std::string(name(param.dtype)), "there is no cast to it",
           "use fp32, bf16 or fp16 parameters");
  const SimdKernels& kernels = simd_kernels(exec.isa);
  // Parameters of a small shard are gathered while they are still cached; those of a large one would only push out
  // state that is about to be read.
  const bool stream = param.num_bytes() >= std::int64_t{16} << 20;
  parallel_blocks(exec, numel(grad_sum), [&](std::int64_t begin, std::int64_t end) {
    kernels.fused_update(scalars, clip_coef, grad_sum.data() + begin, master.data() + begin,
                         exp_avg.data() + begin, exp_avg_sq.data() + begin,
                         static_cast<std::byte*>(param.data) + begin * num_bytes(param.dtype), kind, stream,
                         end - begin);
  });
}

}  // namespace zeroproof::cuda::host
