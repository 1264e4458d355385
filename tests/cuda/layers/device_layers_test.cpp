// The device implementations of the layers, with the checks of the host implementations. Skipped
// without a usable device; tests/cuda/device/sim runs the same file on the simulated device.

#include <doctest.h>

#include "cuda/device/kernels/layers/row_of.cuh"
#include "cuda/device/operations.hpp"
#include "tests/cuda/layers/bias_dropout_support.hpp"
#include "tests/cuda/layers/cross_entropy_support.hpp"
#include "tests/cuda/layers/norm_layers_support.hpp"
#include "tests/cuda/layers/softmax_support.hpp"
#include "tests/cuda/layers/weight_grad_support.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

namespace device_layers_test {

using namespace zeroproof;
using namespace zeroproof::tests;
using device_test::exec, device_test::usable;
using verification::on_device;
namespace device = zeroproof::cuda::device;

TEST_CASE("device: row of an element on both sides of 2^32 elements and columns") {
  constexpr std::int64_t limit = std::int64_t{1} << 32;
  for (const std::int64_t columns : {std::int64_t{1}, std::int64_t{3}, std::int64_t{1} << 20,
                                     limit - 1, limit, limit + 1, 5 * limit + 7}) {
    for (const std::int64_t i : {std::int64_t{0}, limit - 1, limit, limit + 5, 9 * limit + 3}) {
      CAPTURE(columns);
      CAPTURE(i);
      const std::int64_t row = device::row_of(i, columns);
      CHECK(row * columns <= i);
      CHECK(i < (row + 1) * columns);
    }
  }
}

TEST_CASE("device: norms of rows and their gradients") {
  if (!usable()) return;
  const NormImplementations implementations{
      on_device<device::rms_norm>, on_device<device::rms_norm_backward>,
      on_device<device::layer_norm>, on_device<device::layer_norm_backward>};
  check_norm_shapes(implementations, exec);
  check_norms_refused(implementations, exec);
}

TEST_CASE("device: gradients of weights and biases") {
  if (!usable()) return;
  const WeightGradImplementations implementations{on_device<device::column_sum>,
                                                  on_device<device::weight_grad>,
                                                  on_device<device::weight_grad_bf16>};
  check_weight_grad_shapes(implementations, exec);
  check_weight_grad_refused(implementations, exec);
}

TEST_CASE("device: dropout") {
  if (!usable()) return;
  const DropoutImplementations implementations{on_device<device::bias_dropout>,
                                               on_device<device::bias_dropout_backward>};
  check_dropout_cut(implementations, exec);
  check_dropout_shapes(implementations, exec);
  check_dropout_refused(implementations, exec);
}

TEST_CASE("device: softmax and its gradients") {
  if (!usable()) return;
  const SoftmaxImplementations implementations{
      on_device<device::causal_softmax>, on_device<device::causal_softmax_backward>,
      on_device<device::masked_softmax>, on_device<device::masked_softmax_backward>,
      on_device<device::sink_softmax>,   on_device<device::sink_softmax_backward>};
  check_softmax_shapes(implementations, exec);
  check_softmax_refused(implementations, exec);
}

TEST_CASE("device: cross-entropy over a split vocabulary") {
  if (!usable()) return;
  const CrossEntropyImplementations implementations{
      on_device<device::cross_entropy_max>, on_device<device::cross_entropy_sum>,
      on_device<device::cross_entropy_loss>, on_device<device::cross_entropy_backward>};
  check_cross_entropy_sizes(implementations, exec);
  check_cross_entropy_refused(implementations, exec);
}

}  // namespace device_layers_test
