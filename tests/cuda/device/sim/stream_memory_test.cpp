// Errors on a simulated device are reported, and the host cannot access its memory.

#include <doctest.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "tests/cuda/device/sim/streams_support.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/support/skip.hpp"

namespace stream_memory_test {

using namespace zeroproof;
using namespace zeroproof::cuda::device;
using namespace zeroproof::sim_test;
using tests::expect_error;

TEST_CASE("simulated streams: an exception of work is thrown by the wait, once") {
  Stream stream;
  const UseStream use(stream);
  std::string names;
  enqueue_name(names, 'a');
  cuda::sim::enqueue([] { throw std::domain_error("planted"); });
  enqueue_name(names, 'b');  // is dropped
  CHECK_THROWS_AS(wait_for_stream(), std::domain_error);
  CHECK_NOTHROW(wait_for_stream());
  CHECK(names == "a");
  enqueue_name(names, 'c');
  wait_for_stream();
  CHECK(names == "ac");
}

TEST_CASE("simulated streams: an exception of work is thrown by a wait through an event") {
  Stream failing, asked;
  Event event;
  std::string names;
  on(failing, [&] {
    cuda::sim::enqueue([] { throw std::domain_error("planted"); });
    event.record();
  });
  asked.wait_for(event);
  CHECK_THROWS_AS(wait_for(asked), std::domain_error);
  for (Stream* stream : {&failing, &asked}) {
    on(*stream, [&] { enqueue_name(names, 'x'); });
    CHECK_NOTHROW(wait_for(*stream));
  }
  CHECK(names == "xx");
}

TEST_CASE(
    "simulated streams: a write past the end of memory is an error of the next wait or poll") {
  Stream stream;
  const UseStream use(stream);
  void* data = device_allocate((block - 1) * static_cast<std::int64_t>(sizeof(unsigned)));
  launch(overrun_kernel, 1, block, static_cast<unsigned*>(data));
  expect_error(ErrorCode::internal, [] { wait_for_stream(); });
  Event end;
  cuda::sim::enqueue([] {});
  end.record();
  expect_error(ErrorCode::internal, [&] { static_cast<void>(end.reached()); });
  device_release(data);
  try {
    wait_for_stream();  // may report it again; later cases must not
  } catch (const Error&) {
  }
}

TEST_CASE(
    "simulated streams: a write past the end of memory freed by the next wait is reported too") {
  Stream stream;
  const UseStream use(stream);
  void* data = device_allocate((block - 1) * static_cast<std::int64_t>(sizeof(unsigned)));
  launch(overrun_kernel, 1, block, static_cast<unsigned*>(data));
  device_release(data);
  expect_error(ErrorCode::internal, [] { wait_for_stream(); });
  CHECK_NOTHROW(wait_for_stream());
}

TEST_CASE("simulated streams: waits check all allocations in turn") {
  Stream stream;
  const UseStream use(stream);
  std::vector<void*> all(3000);
  for (void*& data : all)
    data = device_allocate((block - 1) * static_cast<std::int64_t>(sizeof(unsigned)));
  wait_for_stream();
  launch(overrun_kernel, 1, block, static_cast<unsigned*>(all[1500]));
  int reports = 0;
  for (int waits = 0; waits < 20; ++waits) {
    cuda::sim::enqueue([] {});
    try {
      wait_for_stream();
    } catch (const Error&) {
      ++reports;
    }
  }
  CHECK(reports >= 1);
  CHECK(reports <= 2);
  for (void* data : all) device_release(data);
  CHECK_NOTHROW(wait_for_stream());  // was reported
}

TEST_CASE("simulated streams: the host cannot touch memory of the device, kernels can") {
  if (sanitized) return tests::skip_case("sanitizers handle signals themselves");
  int host = 0;
  REQUIRE(signal_of([&] { read_byte(&host); }) == 0);
  void* data = nullptr;
  {
    const DeviceWord word(5);
    data = word.data();
    unsigned seen = 0;
    launch(load_kernel, 1, block, word.data(), &seen);
    wait_for_stream();
    CHECK(seen == 5);
    CHECK(signal_of([&] { read_byte(data); }) == SIGSEGV);  // also after a kernel could
    CHECK(signal_of([&] { write_byte(data); }) == SIGSEGV);
  }
  CHECK(signal_of([&] { read_byte(data); }) == SIGSEGV);  // released, perhaps not yet executed
  wait_for_stream();
  CHECK(signal_of([&] { read_byte(data); }) == SIGSEGV);
  CHECK(signal_of([&] { write_byte(data); }) == SIGSEGV);
}

TEST_CASE("simulated streams: device memory ends at its requested size") {
  constexpr std::int64_t num_bytes = 1001;
  auto* const data = static_cast<unsigned char*>(device_allocate(num_bytes));
  for (const std::int64_t at : {std::int64_t{0}, num_bytes - 1}) CHECK(is_on_device(data + at));
  for (const std::int64_t at : {std::int64_t{-1}, num_bytes}) CHECK_FALSE(is_on_device(data + at));
  device_release(data);
  wait_for_stream();
  CHECK_FALSE(is_on_device(data));
}

TEST_CASE("simulated streams: enqueued copies need pinned memory") {
  const DeviceWord word(5);
  unsigned host = 0;
  void* released = pinned_allocate(sizeof(unsigned));
  pinned_release(released);
  const std::function<void()> calls[] = {
      [&] { enqueue_to_device(word.data(), &host, sizeof(host)); },
      [&] { enqueue_to_host(&host, word.data(), sizeof(host)); },
      [&] { enqueue_to_device(word.data(), released, sizeof(host)); },
      [&] { enqueue_to_host(released, word.data(), sizeof(host)); },
  };
  for (const auto& call : calls) {
    bool refused = false;
    try {
      call();
    } catch (const Error& error) {
      refused = error.code() == ErrorCode::internal || error.code() == ErrorCode::invalid_argument;
    }
    CHECK(refused);
  }
  wait_for_stream();
}

TEST_CASE("simulated streams: pinned memory is read when the device executes the copy") {
  const DeviceWord word(5);
  const PinnedBytes sent(1), back(1);
  sent.data()[0] = 1;
  enqueue_to_device(word.data(), sent.data(), 1);
  enqueue_to_host(back.data(), word.data(), 1);
  sent.data()[0] = 2;
  wait_for_stream();
  CHECK(back.data()[0] == 2);
}

TEST_CASE("simulated streams: unwritten memory contains 0xFF") {
  for (const std::int64_t num_bytes : {1, 255, 4097}) {
    const PinnedBytes back(num_bytes);
    for (int round = 0; round < 3; ++round) {  // also after earlier content
      void* data = device_allocate(num_bytes);
      enqueue_to_host(back.data(), data, num_bytes);
      enqueue_fill(data, 7, num_bytes);
      device_release(data);
      wait_for_stream();
      CHECK(back.holds_only(0xFF));
    }
  }
}

TEST_CASE("simulated streams: a write that does not wait for the allocation is lost") {
  for (const bool writer_is_asked : {true, false}) {
    CAPTURE(writer_is_asked);
    const auto right = [&](bool waits) {
      Stream owner, writer;
      Event allocated, written;
      const PinnedBytes back(16);
      void* data = nullptr;
      on(owner, [&] {
        data = device_allocate(16);
        allocated.record();
      });
      if (waits) writer.wait_for(allocated);
      on(writer, [&] { enqueue_fill(data, 7, 16); });
      try {
        wait_for(writer_is_asked ? writer : owner);
        wait_for(writer_is_asked ? owner : writer);
      } catch (const Error&) {
        if (waits) throw;  // without the event, an error shows the defect as well
      }
      on(owner, [&] {
        enqueue_to_host(back.data(), data, 16);
        device_release(data);
        wait_for_stream();
      });
      return back.holds_only(7);
    };
    CHECK(num_wrong([&] { return right(false); }) >= 1);
    CHECK(num_wrong([&] { return right(true); }) == 0);
  }
}

TEST_CASE("simulated streams: use after free is reported when the block is reallocated") {
  const auto reported = [](bool waits) {
    Stream owner, writer;
    Event allocated, written;
    void* data = nullptr;
    on(owner, [&] {
      data = device_allocate(16);
      allocated.record();
    });
    writer.wait_for(allocated);
    on(writer, [&] {
      enqueue_fill(data, 7, 16);
      written.record();
    });
    if (waits) owner.wait_for(written);
    on(owner, [&] { device_release(data); });
    wait_for(owner);
    wait_for(writer);
    on(owner, [&] { data = device_allocate(16); });
    bool refused = false;
    try {
      wait_for(owner);
    } catch (const Error& error) {
      refused = error.code() == ErrorCode::internal;
    }
    on(owner, [&] { device_release(data); });
    wait_for(owner);
    return refused;
  };
  CHECK(reported(false));
  CHECK_FALSE(reported(true));
}

}  // namespace stream_memory_test
