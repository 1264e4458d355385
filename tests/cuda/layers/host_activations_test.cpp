#include <doctest.h>

#include "cuda/host/operations.hpp"
#include "tests/cuda/every_exec.hpp"
#include "tests/cuda/layers/activations_support.hpp"

namespace host_activations_test {

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

namespace {

const ActivationImplementations implementations = {
    host::bias_gelu,    host::bias_gelu_backward,   host::geglu,  host::geglu_backward,
    host::quick_geglu,  host::quick_geglu_backward, host::swiglu, host::swiglu_backward,
    host::squared_relu, host::squared_relu_backward};

}  // namespace

TEST_CASE("host: activations reject mismatched buffers") {
  for (const Exec& exec : every_exec()) check_activations_refused(implementations, exec);
}

TEST_CASE(
    "host: activations have the bits of the reference on every instruction set, any number of "
    "threads, anywhere") {
  for (const std::int64_t columns : {1, 5, 8, 33, 1025, 40000}) {
    for (const bool with : {false, true}) {
      CAPTURE(columns);
      CAPTURE(with);
      const std::int64_t rows = columns < 100 ? 700 : 3;
      const Outputs expected =
          AllActivations(rows, columns, with, 0).run(reference_activations, {}, 1.0F, 0.5F, 0);
      for (const Exec& exec : every_exec()) {
        check_same(AllActivations(rows, columns, with, 1).run(implementations, exec, 1.0F, 0.5F, 3),
                   expected);
      }
    }
  }
}

}  // namespace host_activations_test
