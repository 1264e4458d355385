// Checks graphs against the documentation of their header.
// Copies and fills are the only work here, so that the same file runs on a GPU and, in
// tests/cuda/device/sim, on the simulated device. Skipped without a device.

#include <doctest.h>

#include <cstdint>
#include <functional>

#include "common/base/error.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "tests/cuda/device/device_runtime_support.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"

namespace device_graph_test {

using namespace zeroproof;
using namespace zeroproof::cuda::device;
using namespace zeroproof::device_test;
using tests::expect_error;

TEST_CASE("device: a graph keeps addresses and reads memory at each launch") {
  if (!usable()) return;
  constexpr std::int64_t num_bytes = 4097;
  const DeviceBytes data(num_bytes), other(num_bytes);
  PinnedBytes sent(numbered(num_bytes, 0)), back(num_bytes);
  enqueue_fill(other.data(), 0x22, num_bytes);
  enqueue_fill(data.data(), 0x33, num_bytes);
  unsigned char* target = data.data();
  const Graph graph([&] {
    enqueue_to_device(target, sent.data(), num_bytes);
    enqueue_to_host(back.data(), data.data(), num_bytes);
  });
  target = other.data();
  wait_for_stream();
  CHECK(back.bytes() == Bytes(num_bytes, 0));  // so far it was only captured
  CHECK(data.bytes() == Bytes(num_bytes, 0x33));
  for (int round = 1; round < 5; ++round) {
    CAPTURE(round);
    sent.set(numbered(num_bytes, round));
    graph.launch();
    wait_for_stream();
    CHECK(back.bytes() == numbered(num_bytes, round));
  }
  CHECK(other.bytes() == Bytes(num_bytes, 0x22));
}

TEST_CASE("device: launches of a graph are in stream order with other work") {
  if (!usable()) return;
  constexpr std::int64_t num_bytes = 256;
  const DeviceBytes data(num_bytes), old(num_bytes);
  const PinnedBytes back(num_bytes);
  Bytes bytes(num_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  put(data.data(), bytes.data(), num_bytes);
  const Graph shift([&] {
    enqueue_on_device(old.data(), data.data(), num_bytes);
    enqueue_on_device(data.data(), old.data() + 1, num_bytes - 1);
  });
  for (int i = 0; i < 10; ++i) shift.launch();
  enqueue_to_host(back.data(), data.data(), num_bytes);
  for (int i = 0; i < 20; ++i) shift.launch();
  wait_for_stream();
  CHECK(back.data()[0] == 10);
  CHECK(data.bytes()[0] == 30);
}

TEST_CASE("device: a graph forks to a second stream and joins it, wherever it is launched") {
  if (!usable()) return;
  constexpr std::int64_t num_bytes = (1 << 20) + 1;
  Stream first, second, elsewhere;
  Event forked, joined;
  const DeviceBytes data(num_bytes), copy(num_bytes), beside(num_bytes);
  PinnedBytes sent(num_bytes), back(num_bytes);
  const UseStream use(first);
  const Graph graph([&] {
    enqueue_to_device(data.data(), sent.data(), num_bytes);
    forked.record();
    second.wait_for(forked);
    on(second, [&] {
      enqueue_on_device(copy.data(), data.data(), num_bytes);
      joined.record();
    });
    enqueue_fill(beside.data(), 5, num_bytes);
    first.wait_for(joined);
    enqueue_to_host(back.data(), copy.data(), num_bytes);
  });
  check_works(second);
  for (int round = 0; round < 4; ++round) {
    CAPTURE(round);
    sent.set(numbered(num_bytes, round));
    on(round < 2 ? first : elsewhere, [&] {
      graph.launch();
      wait_for_stream();
    });
    CHECK(back.bytes() == sent.bytes());
    CHECK(beside.bytes() == Bytes(num_bytes, 5));
  }
}

TEST_CASE("device: waits and allocations cannot be captured") {
  if (!usable()) return;
  const DeviceBytes data(16);
  unsigned char host[16] = {};
  Event event;
  const std::function<void()> calls[] = {
      [] { wait_for_stream(); },
      [&] {
        event.record();
        wait_for_event(event);
      },
      [&] { stage_to_host(host, data.data(), 16); },
      [&] { stage_to_device(data.data(), host, 16); },
      [] { device_allocate(16); },
      [] { pinned_allocate(16); },
  };
  enqueue_fill(data.data(), 1, 16);
  for (const auto& call : calls) {
    expect_error(ErrorCode::internal, [&] {
      const Graph graph([&] {
        enqueue_fill(data.data(), 2, 16);
        call();
      });
    });
    check_works(current_stream());
    CHECK(data.bytes() == Bytes(16, 1));  // the fill was not done either
  }
}

TEST_CASE("device: a graph with a stream that is not joined, or not to its end") {
  if (!usable()) return;
  const DeviceBytes data(16);
  Stream second;
  for (const bool too_early : {false, true}) {
    CAPTURE(too_early);
    Event forked, joined;
    expect_error(ErrorCode::internal, [&] {
      const Graph graph([&] {
        forked.record();
        second.wait_for(forked);
        on(second, [&] {
          enqueue_fill(data.data(), 2, 16);
          joined.record();
          if (too_early) enqueue_fill(data.data(), 3, 16);
        });
        if (too_early) current_stream().wait_for(joined);
      });
    });
    check_works(current_stream());
    check_works(second);
  }
}

TEST_CASE("device: exceptions of the body of a graph propagate") {
  if (!usable()) return;
  const DeviceBytes data(16);
  Stream second;
  for (const bool forks : {false, true}) {
    CAPTURE(forks);
    Event forked;
    enqueue_fill(data.data(), 1, 16);
    const auto make = [&] {
      const Graph graph([&] {
        enqueue_fill(data.data(), 2, 16);
        forked.record();
        if (forks) {
          second.wait_for(forked);
          on(second, [&] { enqueue_fill(data.data(), 3, 16); });
        }
        throw std::domain_error("body of a graph");
      });
    };
    CHECK_THROWS_AS(make(), std::domain_error);
    check_works(current_stream());
    check_works(second);
    CHECK(data.bytes() == Bytes(16, 1));
  }
}

}  // namespace device_graph_test
