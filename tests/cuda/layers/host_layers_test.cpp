// The host implementations of the layers have the bits of the reference: odd shapes, special values, with every instruction set and on threads.

#include <doctest.h>

#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/layers/bias_dropout_support.hpp"
#include "tests/cuda/layers/cross_entropy_support.hpp"
#include "tests/cuda/layers/norm_layers_support.hpp"
#include "tests/cuda/layers/softmax_support.hpp"
#include "tests/cuda/layers/weight_grad_support.hpp"

namespace host_layers_test {

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

TEST_CASE("host: norms of rows and their gradients") {
  const NormImplementations implementations{host::rms_norm, host::rms_norm_backward,
                                            host::layer_norm, host::layer_norm_backward};
  for (const Exec& exec : every_exec()) {
    check_norm_shapes(implementations, exec);
    check_norms_refused(implementations, exec);
  }
}

TEST_CASE("host: gradients of weights and biases") {
  const WeightGradImplementations implementations{host::column_sum, host::weight_grad,
                                                  host::weight_grad_bf16};
  for (const Exec& exec : every_exec()) {
    check_weight_grad_shapes(implementations, exec);
    check_weight_grad_refused(implementations, exec);
  }
}

TEST_CASE("host: dropout") {
  const DropoutImplementations implementations{host::bias_dropout, host::bias_dropout_backward};
  for (const Exec& exec : every_exec()) {
    check_dropout_cut(implementations, exec);
    check_dropout_shapes(implementations, exec);
    check_dropout_refused(implementations, exec);
  }
}

TEST_CASE("host: softmax and its gradients") {
  const SoftmaxImplementations implementations{host::causal_softmax, host::causal_softmax_backward,
                                               host::masked_softmax, host::masked_softmax_backward,
                                               host::sink_softmax,   host::sink_softmax_backward};
  for (const Exec& exec : every_exec()) {
    check_softmax_shapes(implementations, exec);
    check_softmax_refused(implementations, exec);
  }
}

TEST_CASE("host: cross-entropy over a split vocabulary") {
  const CrossEntropyImplementations implementations{
      host::cross_entropy_max, host::cross_entropy_sum, host::cross_entropy_loss,
      host::cross_entropy_backward};
  for (const Exec& exec : every_exec()) {
    check_cross_entropy_sizes(implementations, exec);
    check_cross_entropy_refused(implementations, exec);
  }
}

}  // namespace host_layers_test
