#include "cuda/reduce/sources/fill_grad.hpp"

#include <string>

#include "common/base/error.hpp"
#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/reduce/sources/grad_element.cuh"

namespace zeroproof::cuda::device {

namespace {

template <class T>
struct FillGrad {
  static constexpr int pack_numel = 16 / static_cast<int>(sizeof(T));
  GradElements elements;
  std::int64_t begin;
  const std::int32_t* log2_scale;
  T* to;
  float scale = 1;

  ZP_DEVICE void start() { scale = GradElements::power_of_two(*log2_scale); }
  ZP_DEVICE void one(std::int64_t i) const { to[i] = leaf_as<T>(elements.at(begin + i, scale)); }

  ZP_DEVICE void pack(std::int64_t i) const {
    const std::int64_t first = begin + i;
    if ((first & 3) != 0) {  // not the start of a block of random words
      for (int k = 0; k < pack_numel; ++k) one(i + k);
      return;
    }
    Pack<T> out;
    ZP_UNROLL
    for (int b = 0; b < pack_numel / 4; ++b) {
      const PhiloxWords r = elements.words(first + 4 * b);
      ZP_UNROLL
      for (int k = 0; k < 4; ++k)
        out.v[4 * b + k] = leaf_as<T>(elements.value(first + 4 * b + k, r.w[k], scale));
    }
    store_pack(to + i, out);
  }
};

constexpr int one_warp = 32;

ZP_KERNEL clock_kernel(std::uint64_t* nanoseconds) {
  if (threadIdx.x == 0) *nanoseconds = clock_nanoseconds();
}

ZP_KERNEL until_kernel(const std::uint64_t* since, std::uint64_t length) {
  if (threadIdx.x != 0) return;
  while (clock_nanoseconds() - *since < length) {
  }
}

}  // namespace

void enqueue_leaf(const GradFormula& formula, std::int64_t step, std::int64_t micro_batch,
                  std::int64_t begin, const std::int32_t* log2_scale, const TensorView& to) {
  ZP_CHECK(is_param_format(to.dtype), ErrorCode::invalid_argument,
           "fill_grad: the dtype of the gradient is " + std::string(name(to.dtype)),
           "gradients are fp32, bf16 or fp16", "choose one of these");
  if (to.numel == 0) return;
  const GradElements elements{formula.seed, leaf_stream + static_cast<std::uint32_t>(micro_batch),
                              static_cast<std::uint32_t>(step),
                              formula.overflow(step, micro_batch)};
  visit_param_format(to.dtype, [&](auto format) {
    using T = typename decltype(format)::type;
    const FillGrad<T> fill{elements, begin, log2_scale, static_cast<T*>(to.data)};
    run_elementwise(fill, to.numel, fill.to);
  });
}

void enqueue_clock(std::uint64_t* nanoseconds) { launch(clock_kernel, 1, one_warp, nanoseconds); }

void enqueue_until(const std::uint64_t* since, std::int64_t length) {
  ZP_CHECK(length >= 0 && length <= most_nanoseconds, ErrorCode::invalid_argument,
           "the device wait has length " + std::to_string(length) + " ns", "it blocks the stream",
           "use 0 to " + std::to_string(most_nanoseconds));
  if (length > 0) launch(until_kernel, 1, one_warp, since, static_cast<std::uint64_t>(length));
}

}  // namespace zeroproof::cuda::device
