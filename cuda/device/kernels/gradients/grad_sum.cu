#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

struct AddNodes {
  static constexpr int pack_numel = 4;
  const float*
      left;  // [numel]; either operand may be sum: a thread reads an element before it writes it
  const float* right;
  float* sum;

  ZP_DEVICE void one(std::int64_t i) const { sum[i] = left[i] + right[i]; }

  ZP_DEVICE void pack(std::int64_t i) const {
    const Pack<float> l = load_pack(left + i);
    const Pack<float> r = load_pack(right + i);
    Pack<float> s;
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) s.v[k] = l.v[k] + r.v[k];
    store_pack(sum + i, s);
  }
};

}  // namespace

void add_nodes(const Exec&, Span<const float> left, Span<const float> right, Span<float> sum) {
  require_same_numel("left", left, "right", right);
  require_same_numel("left", left, "sum", sum);
  if (sum.empty()) return;
  const AddNodes operation{left.data(), right.data(), sum.data()};
  run_elementwise(operation, numel(sum), operation.left, operation.right, operation.sum);
}

}  // namespace zeroproof::cuda::device
