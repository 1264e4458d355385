#include <doctest.h>

#include "cuda/device/operations.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/layers/layer_support.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

namespace device_elementary_test {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::device_test;
using verification::on_device;
namespace device = zeroproof::cuda::device;

TEST_CASE("device: elementary functions have the bits of the reference, anywhere in memory") {
  if (!usable()) return;
  ElementaryExpFn* const functions[][2] = {
      {on_device<device::elementary_exp>, reference::elementary_exp},
      {on_device<device::elementary_tanh>, reference::elementary_tanh},
      {on_device<device::elementary_sigmoid>, reference::elementary_sigmoid},
      {on_device<device::elementary_erf>, reference::elementary_erf},
      {on_device<device::elementary_log>, reference::elementary_log}};
  std::vector<float> three(3), four(4);
  std::uint64_t stream = 0;
  for (const auto& [function, of_reference] : functions) {
    CAPTURE(stream);
    for_each_layout([&](std::int64_t numel, const int* offset) {
      Place<float> x(numel, offset[0]), y(numel, offset[1]), expected(numel, 0);
      fill(x.span(), stream);
      of_reference({}, x.span(), expected.span());
      function(exec, x.span(), y.span());
      y.check([&](std::int64_t i) { return expected[i]; });
      function(exec, x.span(), x.span());
      x.check([&](std::int64_t i) { return expected[i]; });
    });
    refused([&] { function(exec, three, four); });
    ++stream;
  }
}

}  // namespace device_elementary_test
