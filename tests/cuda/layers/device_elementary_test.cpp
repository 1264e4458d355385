#include <doctest.h>

#include "cuda/device/operations.hpp"
#include "cuda/host/operations.hpp"
#include "tests/cuda/layers/elementary_support.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

namespace device_elementary_test {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::device_test;
namespace device = zeroproof::cuda::device;
namespace host = zeroproof::cuda::host;

namespace {

const ElementaryImplementations implementations = {
    verification::on_device<device::elementary_exp>,
    verification::on_device<device::elementary_tanh>,
    verification::on_device<device::elementary_sigmoid>,
    verification::on_device<device::elementary_erf>,
    verification::on_device<device::elementary_log>};
const ElementaryImplementations host_implementations = {host::elementary_exp, host::elementary_tanh,
                                                        host::elementary_sigmoid,
                                                        host::elementary_erf, host::elementary_log};

}  // namespace

TEST_CASE("device: elementary functions have known values, and reject mismatched buffers") {
  if (!usable()) return;
  check_known_values(implementations, exec);
  check_elementary_refused(implementations, exec);
}

TEST_CASE("device: elementary functions have the bits of the host, anywhere in memory") {
  if (!usable()) return;
  for (std::size_t f = 0; f < implementations.size(); ++f) {
    CAPTURE(f);
    for_each_layout([&](std::int64_t numel, const int* offset) {
      Place<float> x(numel, offset[0]), y(numel, offset[1]), expected(numel, 0);
      fill(x.span(), f);
      host_implementations[f](exec, x.span(), expected.span());
      implementations[f](exec, x.span(), y.span());
      y.check([&](std::int64_t i) { return expected[i]; });
      implementations[f](exec, x.span(), x.span());
      x.check([&](std::int64_t i) { return expected[i]; });
    });
  }
}

}  // namespace device_elementary_test
