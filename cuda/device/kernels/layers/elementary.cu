#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/layers/elementary_element.cuh"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

enum class Function { exp, tanh, sigmoid, erf, log };

template <Function function>
struct Map {
  static constexpr int pack_numel = 4;
  const float* x;  // [numel], may be y
  float* y;

  ZP_DEVICE static float value(float at) {
    if constexpr (function == Function::exp) return elementary_exp_of(at);
    if constexpr (function == Function::tanh) return elementary_tanh_of(at);
    if constexpr (function == Function::sigmoid) return elementary_sigmoid_of(at);
    if constexpr (function == Function::erf) return elementary_erf_of(at);
    if constexpr (function == Function::log) return elementary_log_of(at);
  }

  ZP_DEVICE void one(std::int64_t i) const { y[i] = value(x[i]); }

  ZP_DEVICE void pack(std::int64_t i) const {
    Pack<float> values = load_pack(x + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) values.v[k] = value(values.v[k]);
    store_pack(y + i, values);
  }
};

template <Function function>
void map(Span<const float> x, Span<float> y) {
  require_same_numel("x", x, "y", y);
  if (x.empty()) return;
  const Map<function> operation{x.data(), y.data()};
  run_elementwise(operation, numel(x), operation.x, operation.y);
}

}  // namespace

void elementary_exp(const Exec&, Span<const float> x, Span<float> y) { map<Function::exp>(x, y); }
void elementary_tanh(const Exec&, Span<const float> x, Span<float> y) { map<Function::tanh>(x, y); }
void elementary_sigmoid(const Exec&, Span<const float> x, Span<float> y) {
  map<Function::sigmoid>(x, y);
}
void elementary_erf(const Exec&, Span<const float> x, Span<float> y) { map<Function::erf>(x, y); }
void elementary_log(const Exec&, Span<const float> x, Span<float> y) { map<Function::log>(x, y); }

}  // namespace zeroproof::cuda::device
