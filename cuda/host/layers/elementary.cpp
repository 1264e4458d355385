#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/activation_kernels.hpp"

namespace zeroproof::cuda::host {

namespace {

using Loop = void (*)(const float*, float*, std::int64_t);

void map(const char* op, Loop ActivationKernels::*loop, const Exec& exec, Span<const float> x,
         Span<float> y) {
  require_same_numel(op, "x", x.size(), "y", y.size());
  const Loop run = activation_kernels(exec.isa).*loop;
  parallel_blocks(exec, numel(x), [&](std::int64_t begin, std::int64_t end) {
    run(x.data() + begin, y.data() + begin, end - begin);
  });
}

}  // namespace

void elementary_exp(const Exec& exec, Span<const float> x, Span<float> y) {
  map("elementary_exp", &ActivationKernels::exp, exec, x, y);
}

void elementary_tanh(const Exec& exec, Span<const float> x, Span<float> y) {
  map("elementary_tanh", &ActivationKernels::tanh, exec, x, y);
}

void elementary_sigmoid(const Exec& exec, Span<const float> x, Span<float> y) {
  map("elementary_sigmoid", &ActivationKernels::sigmoid, exec, x, y);
}

void elementary_erf(const Exec& exec, Span<const float> x, Span<float> y) {
  map("elementary_erf", &ActivationKernels::erf, exec, x, y);
}

void elementary_log(const Exec& exec, Span<const float> x, Span<float> y) {
  map("elementary_log", &ActivationKernels::log, exec, x, y);
}

}  // namespace zeroproof::cuda::host
