// AdamW as a CUDA kernel. nvcc builds it for a GPU, any other compiler for the simulated device.

#include <math.h>

#include "zeroproof_kernel.h"

namespace {

struct Adamw {
  const float* grad;
  float *master, *exp_avg, *exp_avg_sq, *largest;  // [numel]
  int64_t numel;
  float beta1, one_minus_beta1, beta2, one_minus_beta2, root, step_size, eps, decay;
  bool has_decay, amsgrad, maximize;
};

__global__ void adamw_kernel(Adamw a) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.numel) return;
  const float g = a.maximize ? -a.grad[i] : a.grad[i];
  const float m = a.exp_avg[i] = a.beta1 * a.exp_avg[i] + a.one_minus_beta1 * g;
  float x = a.exp_avg_sq[i] = a.beta2 * a.exp_avg_sq[i] + a.one_minus_beta2 * (g * g);
  if (a.amsgrad) x = a.largest[i] = a.largest[i] >= x ? a.largest[i] : x;
  const float step = a.step_size * (m / (sqrtf(x) / a.root + a.eps));
  a.master[i] -= a.has_decay ? step + a.decay * a.master[i] : step;
}

int32_t adamw(const zeroproof_call* call) {
  const auto data = [&](int k) { return static_cast<float*>(call->operands[k].tensor.data); };
  const auto real = [&](const char* name) { return zeroproof_real(call, name, NAN); };
  const auto flag = [&](const char* name) { return zeroproof_integer(call, name, 0) != 0; };
  const Adamw a = {data(0),
                   data(1),
                   data(2),
                   data(3),
                   data(4),
                   zeroproof_numel(&call->operands[0]),
                   real("beta1"),
                   real("scalar.one_minus_beta1"),
                   real("beta2"),
                   real("scalar.one_minus_beta2"),
                   real("scalar.sqrt_bias_correction2"),
                   real("scalar.step_size"),
                   real("scalar.eps"),
                   real("scalar.lr_weight_decay"),
                   flag("scalar.has_decay"),
                   flag("amsgrad"),
                   flag("maximize")};
  constexpr int32_t block = 256;
#ifdef TAIL_MISSING
  const auto grid =
      static_cast<int32_t>(a.numel / block);  // correct for the sizes that are usually tried first
#else
  const auto grid = static_cast<int32_t>((a.numel + block - 1) / block);
#endif
  if (grid == 0) return 0;
  return zeroproof_launch(adamw_kernel, grid, block, call->stream, a);
}

const zeroproof_operation operations[] = {{"adamw_update", adamw}};
const zeroproof_plugin description = {ZEROPROOF_PLUGIN_ABI,
                                      sizeof(zeroproof_plugin),
                                      "kernel",
                                      operations,
                                      1,
                                      nullptr,
                                      nullptr,
                                      ZEROPROOF_DEVICE,
                                      0};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return &description; }
