// Checks memory and copies against the documentation of their headers.
// Copies and fills are the only work here, so that the same file runs on a GPU and, in
// tests/cuda/device/sim, on the simulated device. Skipped without a device.

#include <doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "cuda/device/runtime/staging.hpp"
#include "tests/cuda/device/device_runtime_support.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"

namespace device_memory_test {

using namespace zeroproof;
using namespace zeroproof::cuda::device;
using namespace zeroproof::device_test;
using tests::expect_error;

TEST_CASE("device: odd sizes through memory that is not pinned") {
  if (!usable()) return;
  for (const std::int64_t num_bytes : odd_sizes) {
    CAPTURE(num_bytes);
    const DeviceBytes data(num_bytes);
    const Bytes sent = numbered(num_bytes, 2);
    put(data.data(), sent.data(), num_bytes);
    CHECK(data.bytes() == sent);
  }
}

TEST_CASE("device: host memory is reusable once staged, and filled only by the wait") {
  if (!usable()) return;
  constexpr int blocks = 7;
  for (const std::int64_t num_bytes : {std::int64_t{1}, std::int64_t{4097}, Staging::half_bytes,
                                       Staging::half_bytes + 1, 3 * Staging::half_bytes + 5}) {
    CAPTURE(num_bytes);
    const DeviceBytes data(blocks * num_bytes);
    for (int block = 0; block < blocks; ++block) {
      Bytes sent = numbered(num_bytes, block);
      stage_to_device(data.data() + block * num_bytes, sent.data(), num_bytes);
      std::fill(sent.begin(), sent.end(), static_cast<unsigned char>(0xEE));
    }
    std::vector<Bytes> back(blocks, Bytes(static_cast<std::size_t>(num_bytes), 0x77));
    for (int block = 0; block < blocks; ++block) {
      stage_to_host(back[block].data(), data.data() + block * num_bytes, num_bytes);
    }
    CHECK(back.back().back() == 0x77);
    check_calls({.waits = 1}, [] { wait_for_stream(); });
    for (int block = 0; block < blocks; ++block) CHECK(back[block] == numbered(num_bytes, block));
  }
}

TEST_CASE("device: staging uses pinned memory of its stream, and waits if it is full") {
  if (!usable()) return;
  Stream stream;
  const DeviceBytes data(Staging::half_bytes);
  const UseStream use(stream);
  const Bytes sent = numbered(Staging::half_bytes, 1);
  const auto half = [&] { stage_to_device(data.data(), sent.data(), Staging::half_bytes); };
  check_calls({.copies = 2, .allocations = 1}, [&] {
    half();
    half();
  });
  check_calls({.copies = 1, .waits = 1}, half);
  check_calls({.copies = 1, .waits = 1}, half);
  check_calls({.waits = 1}, [] { wait_for_stream(); });
  check_calls({.copies = 1}, half);
  CHECK(data.bytes() == sent);
}

TEST_CASE("device: memory is on the device or on the host") {
  if (!usable()) return;
  const DeviceBytes data(1001);
  const PinnedBytes pinned(1001);
  const Bytes pageable(1001);
  for (const std::int64_t at : {0, 1, 500, 1000}) {
    CAPTURE(at);
    CHECK(is_on_device(data.data() + at));
    CHECK_FALSE(is_on_host(data.data() + at));
    for (const void* const host : {static_cast<const void*>(pinned.data() + at),
                                   static_cast<const void*>(pageable.data() + at)}) {
      CHECK_FALSE(is_on_device(host));
      CHECK(is_on_host(host));
    }
  }
}

TEST_CASE("device: odd sizes through pinned memory and from place to place on the device") {
  if (!usable()) return;
  for (const std::int64_t num_bytes : odd_sizes) {
    CAPTURE(num_bytes);
    const DeviceBytes source(num_bytes), target(num_bytes);
    const PinnedBytes sent(numbered(num_bytes, 3)), back(num_bytes);
    enqueue_to_device(source.data(), sent.data(), num_bytes);
    enqueue_on_device(target.data(), source.data(), num_bytes);
    enqueue_to_host(back.data(), target.data(), num_bytes);
    wait_for_stream();
    CHECK(back.bytes() == sent.bytes());
  }
}

TEST_CASE("device: copies and fills touch their bytes and no others") {
  if (!usable()) return;
  for (const std::int64_t num_bytes : odd_sizes) {
    CAPTURE(num_bytes);
    const DeviceBytes data(num_bytes + 2), source(num_bytes + 1);
    const PinnedBytes sent(numbered(num_bytes + 1, 4)), back(num_bytes + 2);
    const auto check = [&](const Bytes& inside) {
      Bytes expected(static_cast<std::size_t>(num_bytes) + 2, 0x11);
      std::memcpy(expected.data() + 1, inside.data(), static_cast<std::size_t>(num_bytes));
      CHECK(data.bytes() == expected);
    };
    const Bytes all = sent.bytes(), tail(all.begin() + 1, all.end());
    enqueue_fill(data.data(), 0x11, num_bytes + 2);
    enqueue_fill(data.data() + 1, 0xA5, num_bytes);
    check(Bytes(static_cast<std::size_t>(num_bytes), 0xA5));
    enqueue_to_device(data.data() + 1, sent.data() + 1, num_bytes);
    check(tail);
    put(data.data() + 1, all.data(), num_bytes);
    check(all);
    enqueue_to_device(source.data(), sent.data(), num_bytes + 1);
    enqueue_on_device(data.data() + 1, source.data() + 1, num_bytes);
    check(tail);
    enqueue_to_host(back.data() + 1, source.data() + 1, num_bytes);
    wait_for_stream();
    const Bytes seen = back.bytes();
    CHECK(Bytes(seen.begin() + 1, seen.end() - 1) == tail);
    CHECK(seen.front() == 0);
    CHECK(seen.back() == 0);
  }
}

TEST_CASE("device: memory is aligned to 256 bytes") {
  if (!usable()) return;
  std::vector<void*> all;
  for (const std::int64_t num_bytes : odd_sizes) all.push_back(device_allocate(num_bytes));
  for (void* data : all) {
    CHECK(reinterpret_cast<std::uintptr_t>(data) % 256 == 0);
    device_release(data);
  }
  wait_for_stream();
}

TEST_CASE("device: sizes of 0 are allowed and do nothing") {
  if (!usable()) return;
  const DeviceBytes data(1), other(1);
  const PinnedBytes pinned(Bytes{7}), back(Bytes{8});
  unsigned char host = 9;
  enqueue_fill(data.data(), 5, 1);
  enqueue_fill(other.data(), 6, 1);
  enqueue_fill(data.data(), 1, 0);
  enqueue_to_device(data.data(), pinned.data(), 0);
  enqueue_on_device(data.data(), other.data(), 0);
  enqueue_to_host(back.data(), data.data(), 0);
  stage_to_device(data.data(), &host, 0);
  stage_to_host(&host, data.data(), 0);
  wait_for_stream();
  CHECK(data.bytes() == Bytes{5});
  CHECK(back.bytes() == Bytes{8});
  CHECK(host == 9);
}

TEST_CASE("device: negative sizes, and allocations of size 0") {
  if (!usable()) return;
  const DeviceBytes data(16), other(16);
  const PinnedBytes pinned(16);
  unsigned char host[16] = {};
  const std::function<void()> calls[] = {
      [&] { enqueue_fill(data.data(), 1, -1); },
      [&] { enqueue_to_device(data.data(), pinned.data(), -1); },
      [&] { enqueue_to_host(pinned.data(), data.data(), -1); },
      [&] { enqueue_on_device(data.data(), other.data(), -1); },
      [&] { stage_to_device(data.data(), host, -1); },
      [&] { stage_to_host(host, data.data(), -1); },
      [] { device_allocate(0); },
      [] { device_allocate(-1); },
      [] { pinned_allocate(0); },
      [] { pinned_allocate(-1); },
  };
  for (const auto& call : calls) expect_error(ErrorCode::invalid_argument, call);
  check_works(current_stream());
}

TEST_CASE("device: more memory than the device has") {
  if (!usable()) return;
  constexpr std::int64_t too_much = std::int64_t{1} << 60;
  expect_error(ErrorCode::unavailable, [] { device_allocate(too_much); });
  expect_error(ErrorCode::unavailable, [] { pinned_allocate(too_much); });
  check_works(current_stream());
}

}  // namespace device_memory_test
