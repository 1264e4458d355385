// Shared memory, shuffles, votes and atomics of the simulated device: clip as a kernel that ZP_KERNEL names, which
// gives NaN where one of them gave a wrong value, or misuses one.

#include <zeroproof_kernel.h>

#include <cstdlib>
#include <string_view>

namespace language_kernels {

constexpr int32_t block = 64;
constexpr unsigned all_lanes = 0xFFFFFFFFU;
constexpr bool on_a_gpu =
    ZEROPROOF_DEVICE == ZEROPROOF_CUDA;  // where what CUDA leaves undefined is not tested

ZEROPROOF_DYNAMIC_SHARED(int, numbers);

thread_local int num_calls = 0;  // the host's, in the same memory as shared variables

/// A template, so that equal lines of its instances have shared memory of their own.
template <class T>
static __device__ T sum_of_block(T value) {
  __shared__ T total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, value);
  __syncthreads();
  return total;
}

static __device__ bool shuffles_work() {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, first = thread - lane;
  bool right = __shfl_sync(all_lanes, thread, 3) == first + 3;
  right = right && __shfl_sync(all_lanes, thread, 11, 8) == first + lane / 8 * 8 + 3;
  right = right && __shfl_up_sync(all_lanes, 1.0 * thread, 2) == (lane < 2 ? thread : thread - 2);
  right =
      right && __shfl_up_sync(all_lanes, thread, 3U, 4) == (lane % 4 == 3 ? thread - 3 : thread);
  right =
      right && __shfl_down_sync(all_lanes, 1.0F * thread, 5) == (lane < 27 ? thread + 5 : thread);
  right =
      right && __shfl_down_sync(all_lanes, thread, 1, 16) == (lane % 16 < 15 ? thread + 1 : thread);
  right = right && __shfl_xor_sync(all_lanes, thread, 16) == (thread ^ 16);
  right =
      right && __shfl_xor_sync(all_lanes, thread, 8, 8) == (lane % 16 < 8 ? thread : thread - 8);
  const auto pair = __shfl_xor_sync(all_lanes, __floats2bfloat162_rn(lane, -lane), 1);
  return right && __low2float(pair) == (lane ^ 1) && __high2float(pair) == -(lane ^ 1);
}

/// The halves of a warp shuffle on their own, the second one more often.
static __device__ bool halves_work() {
  const unsigned lane = threadIdx.x % 32, first = lane / 16 * 16,
                 mask = lane < 16 ? 0x0000FFFFU : 0xFFFF0000U;
  bool right = true;
  for (unsigned time = 0; time < (lane < 16 ? 2 : 5); ++time)
    right = right && __shfl_sync(mask, lane + 100 * time, static_cast<int>(first + time)) ==
                         first + 101 * time;
  const float other =
      __shfl_sync(mask, 1.0F, static_cast<int>(16 - first));  // of a lane outside of the mask
  return right && (on_a_gpu || other != other);
}

static __device__ bool votes_work() {
  const unsigned thread = threadIdx.x, lane = thread % 32;
  __syncwarp();
  bool right =
      __ballot_sync(all_lanes, lane < 7) == 0x7FU && __any_sync(all_lanes, lane == 31) != 0;
  right = right && __all_sync(all_lanes, lane < 31) == 0 && __all_sync(all_lanes, lane < 32) != 0;
  right = right && __any_sync(all_lanes, lane == 32) == 0;
  right = right && __reduce_max_sync(all_lanes, thread) == thread - lane + 31;
  right =
      right && __syncthreads_count(thread % 2) == block / 2 && __syncthreads_or(thread == 40) != 0;
  right = right && __syncthreads_or(0) == 0 && __syncthreads_and(thread != 40) == 0;
  return right && __syncthreads_and(1) != 0;
}

static __device__ bool atomics_work() {
  const unsigned thread = threadIdx.x;
  __shared__ unsigned largest, smallest, taken, turns;
  __shared__ __nv_bfloat162 pair;
  __shared__ float product;
  if (thread == 0) {
    largest = turns = 0;
    smallest = taken = 1000;
    pair = __floats2bfloat162_rn(0, 0);
    product = 1;
  }
  __syncthreads();
  atomicMax(&largest, thread);
  atomicMin(&smallest, thread);
  atomicCAS(&taken, 1000U, thread);
  atomicInc(&turns, 9U);
  if (thread < 8) atomicAdd(&pair, __floats2bfloat162_rn(1, 2));
  if (thread < 10) {
    int seen = __float_as_int(product), before = 0;
    do {
      before = seen;
      seen = atomicCAS(reinterpret_cast<int*>(&product), before,
                       __float_as_int(2 * __int_as_float(before)));
    } while (seen != before);
  }
  __syncthreads();
  bool right = largest == block - 1 && smallest == 0 && taken < block && turns == block % 10 &&
               product == 1024;
  right = right && __low2float(pair) == 8 && __high2float(pair) == 16;
  constexpr int sum = block * (block - 1) / 2;
  right =
      right && sum_of_block(static_cast<int>(thread)) == sum && sum_of_block(1.0 * thread) == sum;
  return right && sum_of_block(1.0F * thread) == sum &&
         sum_of_block<unsigned long long>(thread) == sum;
}

static __device__ bool dynamic_works() {
  extern __shared__ int numbers[];
  const int thread = static_cast<int>(threadIdx.x);
  const bool unwritten = on_a_gpu || numbers[thread] == -1;
  __syncthreads();
  numbers[thread] = thread;
  __syncthreads();
  return unwritten && numbers[block - 1 - thread] == block - 1 - thread && threadIdx.y == 0 &&
         blockDim.z == 1;
}

static __global__ void whole_language(const float* from, float* to, int64_t numel, float coef) {
  bool right = shuffles_work();
  right = halves_work() && right;
  right = votes_work() && right;
  right = atomics_work() && right;
  right = dynamic_works() && right;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < numel) to[i] = right ? from[i] * coef : NAN;
}

static __global__ void returned_lane(const float*, float*, int64_t, float) {
  if (threadIdx.x == 5) return;
  __shfl_down_sync(all_lanes, 1, 1);
}

static __global__ void outside_mask(const float*, float*, int64_t, float) {
  __shfl_sync(0x0000FFFFU, 1, 1);
}

static __global__ void odd_width(const float*, float*, int64_t, float) {
  __shfl_down_sync(all_lanes, 1, 1, 12);
}

static __global__ void shared_overrun(const float*, float*, int64_t, float) {
  extern __shared__ int numbers[];
  numbers[threadIdx.x + 1] = 7;
}

static __global__ void unwritten(const float*, float* to, int64_t numel, float) {
  __shared__ float value;
  if (threadIdx.x < numel) to[threadIdx.x] = value;
  __syncthreads();
  value = 1;
}

/// Found by -fsanitize=bounds.
static __global__ void static_overrun(const float*, float* to, int64_t numel, float) {
  __shared__ float few[block - 1];
  few[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x < numel) to[threadIdx.x] = few[0];
}

struct Kernel {
  const char* name;
  void (*kernel)(const float*, float*, int64_t, float);
};
const Kernel kernels[] = {{"whole_language", whole_language}, {"returned_lane", returned_lane},
                          {"outside_mask", outside_mask},     {"odd_width", odd_width},
                          {"shared_overrun", shared_overrun}, {"unwritten", unwritten},
                          {"much_shared", whole_language},    {"static_overrun", static_overrun}};

static int32_t clip(const zeroproof_call* call) {
  static int same = 0;
  if (num_calls++ != same++) return 7;
  const char* given = std::getenv("ZP_KERNEL");
  const std::string_view name = given == nullptr ? "" : given;
  const int64_t numel = zeroproof_numel(&call->operands[0]);
  if (numel == 0) return 0;
  const auto grid = static_cast<int32_t>((numel + block - 1) / block);
  const auto data = [&](int k) { return static_cast<float*>(call->operands[k].tensor.data); };
  for (const Kernel& row : kernels) {
    if (row.name != name) continue;
    return zeroproof_launch_shared(row.kernel, grid, block,
                                   name == "much_shared" ? 48 * 1024 + 1 : 4 * block, call->stream,
                                   data(0), data(1), numel, zeroproof_real(call, "clip_coef", NAN));
  }
  return 8;
}

const zeroproof_operation operations[] = {{"clip", clip}};
const zeroproof_plugin description = {ZEROPROOF_PLUGIN_ABI,
                                      sizeof(zeroproof_plugin),
                                      "language",
                                      operations,
                                      1,
                                      nullptr,
                                      nullptr,
                                      ZEROPROOF_DEVICE,
                                      0};

}  // namespace language_kernels

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) {
  return &language_kernels::description;
}
