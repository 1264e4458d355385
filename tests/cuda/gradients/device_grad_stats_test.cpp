#include <doctest.h>

#include <vector>

#include "cuda/device/grad_stats.hpp"
#include "cuda/device/operations.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "tests/cuda/gradients/grad_stats_support.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"
#include "verification/ops/on_device.hpp"

namespace device_grad_stats_test {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::device_test;
namespace device = zeroproof::cuda::device;

TEST_CASE("device: statistics of a gradient") {
  if (!usable()) return;
  check_stats(verification::on_device<device::grad_stats>, exec);
  check_stats_refused(verification::on_device<device::grad_stats>, exec);
}

TEST_CASE("device: statistics of device memory, also in a graph") {
  if (!usable()) return;
  const std::vector<float> grad = {1.0F, -inf, 0.0F, -0.0F, 7.0F};
  const std::vector<GradSegment> segments = {{3, 2, 1}, {0, 3, 0}};
  std::vector<GradStats> stats(2);
  verification::DeviceSpans spans;
  const float* const values = spans.of(Span<const float>(grad)).data();
  GradStats* const found = spans.of(Span<GradStats>(stats)).data();
  const device::DeviceSegments table(segments);
  const cuda::DeviceCalls before = device::device_calls();
  device::enqueue_grad_stats(values, table, found);
  CHECK(device::device_calls().launches == before.launches + 2);
  CHECK(device::device_calls().allocations == before.allocations);
  CHECK(device::device_calls().waits == before.waits);
  const device::Graph graph([&] { device::enqueue_grad_stats(values, table, found); });
  graph.launch();
  graph.launch();
  spans.fetch();
  CHECK(stats[0] == GradStats{0x7F800000, 3, 3});
  CHECK(stats[1] == GradStats{0x40E00000, 0, 3});
}

}  // namespace device_grad_stats_test
