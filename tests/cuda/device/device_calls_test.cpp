// Devices, grids, counted calls and named steps.
// Copies and fills are the only work here, so that the same file runs on a GPU and, in
// tests/cuda/device/sim, on the simulated device. Skipped without a device.

#include <doctest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "tests/cuda/device/device_runtime_support.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"

namespace device_calls_test {

using namespace zeroproof;
using namespace zeroproof::cuda::device;
using namespace zeroproof::device_test;
using tests::expect_error;

TEST_CASE("device: calls are counted") {
  if (!usable()) return;
  void *data = nullptr, *other = nullptr, *pinned = nullptr;
  check_calls({.allocations = 3}, [&] {
    data = device_allocate(64);
    other = device_allocate(64);
    pinned = pinned_allocate(64);
  });
  unsigned char host[64] = {};
  check_calls({.copies = 4}, [&] {
    enqueue_fill(data, 1, 64);
    enqueue_to_device(data, pinned, 64);
    enqueue_on_device(other, data, 64);
    enqueue_to_host(pinned, other, 64);
  });
  check_calls({.waits = 1}, [] { wait_for_stream(); });
  check_calls({.copies = 1, .allocations = 1},
              [&] { stage_to_device(data, host, 64); });  // the stream's first
  check_calls({.copies = 2}, [&] {
    stage_to_device(other, host, 64);
    stage_to_host(host, data, 64);
  });
  check_calls({.waits = 1}, [] { wait_for_stream(); });
  const Graph graph([&] {
    enqueue_fill(data, 1, 64);
    enqueue_fill(other, 1, 64);
  });
  check_calls({.graph_launches = 2}, [&] {
    graph.launch();
    graph.launch();
  });
  Event event;
  check_calls({}, [&] {  // no call here waits
    Stream second;
    event.record();
    second.wait_for(event);
    const UseStream use(second);
    event.reached();
  });
  check_calls({.waits = 1}, [&] { wait_for_event(event); });
  wait_for_stream();
  check_calls({}, [&] {
    device_release(data);
    device_release(other);
    pinned_release(pinned);
  });
}

TEST_CASE("device: each host thread counts its own calls") {
  if (!usable()) return;
  const DeviceBytes data(16);
  check_calls({}, [&] {
    in_a_thread([&] {
      CHECK(device_calls().copies == 0);
      CHECK(device_calls().allocations == 0);
      CHECK(device_calls().waits == 0);
      enqueue_fill(data.data(), 1, 16);
      wait_for_stream();
      CHECK(device_calls().copies == 1);
      CHECK(device_calls().waits == 1);
    });
  });
}

TEST_CASE("device: local ranks take turns on the devices") {
  if (!usable()) return;
  CHECK(num_devices() >= 1);
  for (const int local_rank : {0, 1, 7}) {
    CAPTURE(local_rank);
    in_a_thread([&] {  // this thread keeps its device
      CHECK(choose_device(local_rank) == local_rank % num_devices());
      check_works(current_stream());
    });
  }
  in_a_thread([] { expect_error(ErrorCode::invalid_argument, [] { choose_device(-1); }); });
}

TEST_CASE("device: one that is too old for the kernels is unusable, and named") {
  for (const auto& [major, minor] : {std::pair{3, 7}, {7, 0}, {7, 5}}) {
    const DeviceInfo info = info_of({"Old One", 1, major, minor});
    CHECK(info.built);
    CHECK(!info.answers);
    CHECK(info.detail == "no usable CUDA device: Old One, compute capability " +
                             std::to_string(major) + "." + std::to_string(minor) +
                             ", but 8.0 or newer is needed");
  }
  for (const auto& [major, minor] : {std::pair{8, 0}, {9, 0}, {12, 1}})
    CHECK(info_of({"New One", 1, major, minor}).answers);
}

TEST_CASE("device: a grid has at least one block, and at most as many as fill the device") {
  if (!usable()) return;
  CHECK(num_multiprocessors() >= 1);
  const int most = 8 * num_multiprocessors();
  for (const int items : {0, 1, 255, 256}) CHECK(grid_blocks(items) == 1);
  CHECK(grid_blocks(257) == 2);
  CHECK(grid_blocks(std::int64_t{256} * (most - 1)) == most - 1);
  CHECK(grid_blocks(std::int64_t{256} * (most - 1) + 1) == most);
  CHECK(grid_blocks(std::int64_t{256} * most) == most);
  CHECK(grid_blocks(std::int64_t{256} * most + 1) == most);
  CHECK(grid_blocks(std::int64_t{1} << 60) == most);
}

TEST_CASE("device: errors name the step, in the thread that named it") {
  if (!usable()) return;
  const auto message = [] { return message_of([] { device_allocate(std::int64_t{1} << 60); }); };
  name_step(12);
  CHECK(message().find("in step 12") != std::string::npos);
  in_a_thread([&] { CHECK(message().find("in step") == std::string::npos); });
  name_step(-1);
  CHECK(message().find("in step") == std::string::npos);
}

}  // namespace device_calls_test
