// Gradient norm and AdamW as CUDA authors write them: float4 loads with a tail, a block's sum by shuffles and shared
// memory, bf16 parameters stored in pairs. nvcc builds it for a GPU, any other compiler for the simulated device. The
// macros make it wrong: NO_BARRIER, NARROW_SHUFFLE, TAIL_DROPPED, TRUNCATED.

#include <math.h>

#include "zeroproof_kernel.h"

namespace fused_adamw {

ZEROPROOF_DYNAMIC_SHARED(double, warp_sums);

constexpr int32_t block = 256;
constexpr unsigned whole_warp = 0xFFFFFFFFU;

#ifdef NARROW_SHUFFLE
constexpr int width = 16;  // of half a warp
#else
constexpr int width = 32;
#endif

static __device__ double sum_of_warp(double value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const double other = __shfl_down_sync(whole_warp, value, lanes, width);
    value += other;
  }
  return value;
}

/// Thread 0 gets the sum of the block.
static __device__ double sum_of_block(double value) {
  extern __shared__ double warp_sums[];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  value = sum_of_warp(value);
  if (lane == 0) warp_sums[warp] = value;
#ifndef NO_BARRIER
  __syncthreads();
#endif
  return warp == 0 ? sum_of_warp(lane < blockDim.x / 32 ? warp_sums[lane] : 0) : 0;
}

static __device__ double square(float x) { return static_cast<double>(x) * x; }

static __global__ void __launch_bounds__(block)
    norm_kernel(const float* __restrict__ grad, double* norm, int64_t numel, bool aligned) {
  double sum = 0;
  const int64_t fours = aligned ? numel / 4 : 0;
  for (int64_t i = threadIdx.x; i < fours; i += blockDim.x) {
    const float4 g = __ldg(&reinterpret_cast<const float4*>(grad)[i]);
    sum += square(g.x) + square(g.y) + square(g.z) + square(g.w);
  }
  for (int64_t i = 4 * fours + threadIdx.x; i < numel; i += blockDim.x) sum += square(grad[i]);
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) *norm = sqrt(sum);
}

struct Rates {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, root, step_size, eps, decay;
  bool has_decay, amsgrad, maximize;
};

/// Updates the moments of one element and returns its parameter.
static __device__ __forceinline__ float update(const Rates& a, float g, float p, float& m, float& v,
                                               float& largest) {
  if (a.maximize) g = -g;
  m = a.beta1 * m + a.one_minus_beta1 * g;
  v = a.beta2 * v + a.one_minus_beta2 * (g * g);
  float x = v;
  if (a.amsgrad) x = largest = largest >= x ? largest : x;
  const float step = a.step_size * (m / (sqrtf(x) / a.root + a.eps));
  return p - (a.has_decay ? step + a.decay * p : step);
}

struct Fp32 {
  const float* grad;
  float *master, *exp_avg, *exp_avg_sq, *largest;
  int64_t numel;
  bool aligned;
};

static __global__ void __launch_bounds__(block) adamw_kernel(Fp32 x, Rates a) {
  const int64_t self = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t all = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t fours = x.aligned ? x.numel / 4 : 0;
  for (int64_t i = self; i < fours; i += all) {
    const float4 g = reinterpret_cast<const float4*>(x.grad)[i];
    float4 p = reinterpret_cast<float4*>(x.master)[i];
    float4 m = reinterpret_cast<float4*>(x.exp_avg)[i];
    float4 v = reinterpret_cast<float4*>(x.exp_avg_sq)[i];
    float4 l = a.amsgrad ? reinterpret_cast<float4*>(x.largest)[i] : make_float4(0, 0, 0, 0);
    p.x = update(a, g.x, p.x, m.x, v.x, l.x);
    p.y = update(a, g.y, p.y, m.y, v.y, l.y);
    p.z = update(a, g.z, p.z, m.z, v.z, l.z);
    p.w = update(a, g.w, p.w, m.w, v.w, l.w);
    reinterpret_cast<float4*>(x.master)[i] = p;
    reinterpret_cast<float4*>(x.exp_avg)[i] = m;
    reinterpret_cast<float4*>(x.exp_avg_sq)[i] = v;
    if (a.amsgrad) reinterpret_cast<float4*>(x.largest)[i] = l;
  }
#ifdef TAIL_DROPPED
  if (x.aligned) return;
#endif
  for (int64_t i = 4 * fours + self; i < x.numel; i += all) {
    float unused = 0;
    x.master[i] = update(a, x.grad[i], x.master[i], x.exp_avg[i], x.exp_avg_sq[i],
                         a.amsgrad ? x.largest[i] : unused);
  }
}

struct Bf16 {
  const __nv_bfloat16* grad;
  __nv_bfloat16* master;
  float *exp_avg, *exp_avg_sq, *largest;
  int64_t numel;
  bool aligned;
};

static __device__ __nv_bfloat16 narrow(float x) {
#ifdef TRUNCATED
  return __float2bfloat16_rz(x);
#else
  return __float2bfloat16_rn(x);
#endif
}

/// Two elements in each thread; the last one alone.
static __global__ void __launch_bounds__(block) adamw_bf16_kernel(Bf16 x, Rates a) {
  const int64_t i = 2 * (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x);
  if (i >= x.numel) return;
  const bool pair = i + 1 < x.numel;
  float p[2], unused = 0;
  for (int k = 0; k < (pair ? 2 : 1); ++k) {
    p[k] = update(a, __bfloat162float(x.grad[i + k]), __bfloat162float(x.master[i + k]),
                  x.exp_avg[i + k], x.exp_avg_sq[i + k], a.amsgrad ? x.largest[i + k] : unused);
  }
  if (pair && x.aligned) {
    *reinterpret_cast<__nv_bfloat162*>(x.master + i) =
        __halves2bfloat162(narrow(p[0]), narrow(p[1]));
    return;
  }
  x.master[i] = narrow(p[0]);
  if (pair) x.master[i + 1] = narrow(p[1]);
}

template <class T>
static T* data(const zeroproof_call* call, int k) {
  return static_cast<T*>(call->operands[k].tensor.data);
}

/// True if the first operands begin at multiples of `bytes`.
static bool is_aligned(const zeroproof_call* call, int num_operands, uintptr_t bytes) {
  for (int k = 0; k < num_operands; ++k) {
    if (reinterpret_cast<uintptr_t>(call->operands[k].tensor.data) % bytes != 0) return false;
  }
  return true;
}

static Rates rates(const zeroproof_call* call) {
  const auto real = [&](const char* name) { return zeroproof_real(call, name, NAN); };
  const auto flag = [&](const char* name) { return zeroproof_integer(call, name, 0) != 0; };
  return {real("beta1"),
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
}

static int32_t grid_of(int64_t threads) {
  return static_cast<int32_t>((threads + block - 1) / block);
}

static int32_t norm(const zeroproof_call* call) {
  return zeroproof_launch_shared(norm_kernel, 1, block,
                                 block / 32 * static_cast<int32_t>(sizeof(double)), call->stream,
                                 data<float>(call, 0), data<double>(call, 1),
                                 zeroproof_numel(&call->operands[0]), is_aligned(call, 1, 16));
}

static int32_t adamw(const zeroproof_call* call) {
  const Fp32 x = {data<float>(call, 0),   data<float>(call, 1), data<float>(call, 2),
                  data<float>(call, 3),   data<float>(call, 4), zeroproof_numel(&call->operands[0]),
                  is_aligned(call, 5, 16)};
  if (x.numel == 0) return 0;
  return zeroproof_launch(adamw_kernel, grid_of((x.numel + 3) / 4), block, call->stream, x,
                          rates(call));
}

static int32_t adamw_bf16(const zeroproof_call* call) {
  const Bf16 x = {data<__nv_bfloat16>(call, 0), data<__nv_bfloat16>(call, 1),
                  data<float>(call, 2),         data<float>(call, 3),
                  data<float>(call, 4),         zeroproof_numel(&call->operands[0]),
                  is_aligned(call, 2, 4)};
  if (x.numel == 0) return 0;
  return zeroproof_launch(adamw_bf16_kernel, grid_of((x.numel + 1) / 2), block, call->stream, x,
                          rates(call));
}

/// The norm is Euclidean.
static int32_t supports(const zeroproof_call* call) {
  return strcmp(call->operation, "grad_norm_p") != 0 || zeroproof_real(call, "p", 0) == 2 ? 1 : 0;
}

const zeroproof_operation operations[] = {
    {"grad_norm_p", norm}, {"adamw_update", adamw}, {"adamw_update_bf16", adamw_bf16}};
const zeroproof_plugin description = {ZEROPROOF_PLUGIN_ABI,
                                      sizeof(zeroproof_plugin),
                                      "fused",
                                      operations,
                                      3,
                                      supports,
                                      nullptr,
                                      ZEROPROOF_DEVICE,
                                      0};

}  // namespace fused_adamw

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return &fused_adamw::description; }
