#include "verification/bench/device/loops.hpp"

#include <cstddef>

#include "cuda/device/kernels/base/pack.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"
#if defined(__CUDACC__)
#include <cub/device/device_reduce.cuh>

#include "cuda/device/runtime/cuda_call.hpp"
#endif

namespace zeroproof::verification::bench {

namespace {

using cuda::device::load_pack;
using cuda::device::Pack;
using cuda::device::store_pack;
using namespace cuda::device;  // the words of kernels

using Words = Pack<std::uint32_t>;
struct alignas(8) TwoWords {
  std::uint32_t v[2];
};

/// Calls visit.template run<n>(first pack, packs between) for n packs at a time, and one at a time at the end.
template <int unroll, class Visit>
ZP_DEVICE void for_packs(std::int64_t num_packs, Visit& visit) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t p = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; p + (unroll - 1) * stride < num_packs; p += unroll * stride)
    visit.template run<unroll>(p, stride);
  for (; p < num_packs; p += stride) visit.template run<1>(p, stride);
}

struct ReadVisit {
  const std::uint32_t* from;
  std::uint32_t seen;

  template <int n>
  ZP_DEVICE void run(std::int64_t p, std::int64_t stride) {
    Words in[n];
    ZP_UNROLL
    for (int u = 0; u < n; ++u) in[u] = load_pack(from + 4 * (p + u * stride));
    ZP_UNROLL
    for (int u = 0; u < n; ++u) seen ^= in[u].v[0] ^ in[u].v[1] ^ in[u].v[2] ^ in[u].v[3];
  }
};

struct CopyVisit {
  const std::uint32_t* from;
  std::uint32_t* to;

  template <int n>
  ZP_DEVICE void run(std::int64_t p, std::int64_t stride) {
    Words in[n];
    ZP_UNROLL
    for (int u = 0; u < n; ++u) in[u] = load_pack(from + 4 * (p + u * stride));
    ZP_UNROLL
    for (int u = 0; u < n; ++u) store_pack(to + 4 * (p + u * stride), in[u]);
  }
};

template <int leaves>
struct FoldVisit {
  const std::uint16_t* from[leaves];
  std::uint32_t* to;

  template <int n>
  ZP_DEVICE void run(std::int64_t p, std::int64_t stride) {
    TwoWords in[n][leaves];
    ZP_UNROLL
    for (int u = 0; u < n; ++u) {
      ZP_UNROLL
      for (int i = 0; i < leaves; ++i)
        in[u][i] = *reinterpret_cast<const TwoWords*>(from[i] + 4 * (p + u * stride));
    }
    ZP_UNROLL
    for (int u = 0; u < n; ++u) {
      TwoWords all{{0, 0}};
      ZP_UNROLL
      for (int i = 0; i < leaves; ++i) {
        all.v[0] ^= in[u][i].v[0];
        all.v[1] ^= in[u][i].v[1];
      }
      store_pack(to + 4 * (p + u * stride),
                 Words{{all.v[0], all.v[0] << 16, all.v[1], all.v[1] << 16}});
    }
  }
};

struct StepVisit {
  const std::uint32_t* grad;
  std::uint32_t* kept[3];
  std::uint16_t* param;
  std::uint32_t mask;  // 0, unknown to the compiler

  template <int n>
  ZP_DEVICE void run(std::int64_t p, std::int64_t stride) {
    Words g[n], in[n][3];
    ZP_UNROLL
    for (int u = 0; u < n; ++u) {
      const std::int64_t at = 4 * (p + u * stride);
      g[u] = load_pack(grad + at);
      ZP_UNROLL
      for (int i = 0; i < 3; ++i) in[u][i] = load_pack(kept[i] + at);
    }
    ZP_UNROLL
    for (int u = 0; u < n; ++u) {
      const std::int64_t at = 4 * (p + u * stride);
      ZP_UNROLL
      for (int i = 0; i < 3; ++i) {
        ZP_UNROLL
        for (int k = 0; k < 4; ++k) in[u][i].v[k] ^= g[u].v[k] & mask;
        store_pack(kept[i] + at, in[u][i]);
      }
      *reinterpret_cast<TwoWords*>(param + at) =
          TwoWords{{in[u][0].v[0] ^ in[u][0].v[1], in[u][0].v[2] ^ in[u][0].v[3]}};
    }
  }
};

template <int unroll>
ZP_KERNEL read_kernel(const std::uint32_t* from, std::int64_t num_packs, std::uint32_t* sink) {
  ReadVisit visit{from, 0};
  for_packs<unroll>(num_packs, visit);
  if (visit.seen == 0x5A17C0DEU) *sink = visit.seen;  // never true, unknown to the compiler
}

template <int unroll, class Visit>
ZP_KERNEL loop_kernel(Visit visit, std::int64_t num_packs) {
  for_packs<unroll>(num_packs, visit);
}

template <int n>
struct Unroll {
  static constexpr int value = n;
};

template <class F>
void visit_unroll(int unroll, F&& f) {
  if (unroll == 1) return f(Unroll<1>{});
  if (unroll == 2) return f(Unroll<2>{});
  if (unroll == 4) return f(Unroll<4>{});
  f(Unroll<8>{});
}

template <class Visit>
void enqueue_loop(int unroll, const Visit& visit, std::int64_t numel) {
  visit_unroll(unroll, [&](auto n) {
    launch(loop_kernel<decltype(n)::value, Visit>, grid_blocks(numel / 4), block_threads, visit,
           numel / 4);
  });
}

template <int leaves>
void enqueue_fold(int unroll, const std::vector<const std::uint16_t*>& from, void* to,
                  std::int64_t numel) {
  FoldVisit<leaves> visit{};
  for (int i = 0; i < leaves; ++i) visit.from[i] = from[i];
  visit.to = static_cast<std::uint32_t*>(to);
  enqueue_loop(unroll, visit, numel);
}

std::uint32_t* words(float* values) { return reinterpret_cast<std::uint32_t*>(values); }

}  // namespace

void enqueue_read_loop(int unroll, const void* from, std::int64_t numel, std::uint32_t* sink) {
  visit_unroll(unroll, [&](auto n) {
    launch(read_kernel<decltype(n)::value>, grid_blocks(numel / 4), block_threads,
           static_cast<const std::uint32_t*>(from), numel / 4, sink);
  });
}

void enqueue_copy_loop(int unroll, const void* from, void* to, std::int64_t numel) {
  enqueue_loop(unroll,
               CopyVisit{static_cast<const std::uint32_t*>(from), static_cast<std::uint32_t*>(to)},
               numel);
}

void enqueue_fold_loop(int unroll, const std::vector<const std::uint16_t*>& leaves, void* to,
                       std::int64_t numel) {
  switch (leaves.size()) {
    case 1:
      return enqueue_fold<1>(unroll, leaves, to, numel);
    case 2:
      return enqueue_fold<2>(unroll, leaves, to, numel);
    case 4:
      return enqueue_fold<4>(unroll, leaves, to, numel);
    default:
      return enqueue_fold<8>(unroll, leaves, to, numel);
  }
}

void enqueue_step_loop(int unroll, const StepAccess& access, std::int64_t numel) {
  const StepVisit visit{reinterpret_cast<const std::uint32_t*>(access.grad),
                        {words(access.master), words(access.exp_avg), words(access.exp_avg_sq)},
                        access.param,
                        0};
  enqueue_loop(unroll, visit, numel);
}

#if defined(__CUDACC__)
namespace {

struct Square {
  __host__ __device__ float operator()(float value) const { return value * value; }
};
struct Plus {
  __host__ __device__ float operator()(float left, float right) const { return left + right; }
};

/// With scratch = null returns only how much of it is needed.
std::size_t reduce(void* scratch, std::size_t num_bytes, const float* values, float* sum,
                   std::int64_t numel) {
  check_cuda(cub::DeviceReduce::TransformReduce(scratch, num_bytes, values, sum, numel, Plus{},
                                                Square{}, 0.0F, current_cuda_stream()),
             "adding squares with CUB");
  return num_bytes;
}

}  // namespace

std::size_t unordered_norm_bytes(const float* values, float* sum, std::int64_t numel) {
  return reduce(nullptr, 0, values, sum, numel);
}
void enqueue_unordered_norm(const float* values, float* sum, std::int64_t numel, void* scratch,
                            std::size_t num_bytes) {
  reduce(scratch, num_bytes, values, sum, numel);
}
#else
std::size_t unordered_norm_bytes(const float*, float*, std::int64_t) { return 0; }
void enqueue_unordered_norm(const float*, float*, std::int64_t, void*, std::size_t) {}
#endif

}  // namespace zeroproof::verification::bench
