#include <doctest.h>

#include "cuda/device/operations.hpp"
#include "tests/cuda/layers/activations_support.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

namespace device_activations_test {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;

namespace {

const ActivationImplementations implementations = {
    on_device<device::bias_gelu>,    on_device<device::bias_gelu_backward>,
    on_device<device::geglu>,        on_device<device::geglu_backward>,
    on_device<device::quick_geglu>,  on_device<device::quick_geglu_backward>,
    on_device<device::swiglu>,       on_device<device::swiglu_backward>,
    on_device<device::squared_relu>, on_device<device::squared_relu_backward>};

}  // namespace

TEST_CASE("device: activations reject mismatched buffers") {
  if (!usable()) return;
  check_activations_refused(implementations, exec);
}

TEST_CASE("device: activations have the bits of the reference, anywhere in memory") {
  if (!usable()) return;
  for (const std::int64_t columns : {1, 4, 5, 8, 33, 260, 1025}) {
    for (const std::int64_t rows : {0, 1, 37}) {
      for (const bool with : {false, true}) {
        for (const int offset : {0, 1}) {
          CAPTURE(columns);
          CAPTURE(rows);
          CAPTURE(with);
          CAPTURE(offset);
          const AllActivations inputs(rows, columns, with, offset);
          check_same(inputs.run(implementations, exec, 0.0F, 0.0F, offset),
                     inputs.run(reference_activations, {}, 0.0F, 0.0F, 0));
          check_same(inputs.run(implementations, exec, 1.0F, 0.25F, 2),
                     inputs.run(reference_activations, {}, 1.0F, 0.25F, 0));
        }
      }
    }
  }
}

}  // namespace device_activations_test
