// Checks streams and events against the documentation of their header.
// Copies and fills are the only work here, so that the same file runs on a GPU and, in
// tests/cuda/device/sim, on the simulated device. Skipped without a device.

#include <doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "tests/cuda/device/device_runtime_support.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"

namespace device_streams_test {

using namespace zeroproof;
using namespace zeroproof::cuda::device;
using namespace zeroproof::device_test;
using tests::expect_error;

TEST_CASE("device: a stream keeps its order") {
  if (!usable()) return;
  constexpr std::int64_t num_bytes = 4097;
  constexpr int rounds = 100;
  const DeviceBytes data(num_bytes);
  const PinnedBytes seen(rounds * num_bytes);
  Bytes expected;
  for (int round = 0; round < rounds; ++round) {  // each fill is after one copy and before another
    const auto byte = static_cast<unsigned char>(round + 1);
    enqueue_fill(data.data(), byte, num_bytes);
    enqueue_to_host(seen.data() + round * num_bytes, data.data(), num_bytes);
    expected.insert(expected.end(), num_bytes, byte);
  }
  wait_for_stream();
  CHECK(seen.bytes() == expected);
}

TEST_CASE("device: an event orders two streams") {
  if (!usable()) return;
  Stream producer, consumer;
  Event produced;
  for (const std::int64_t num_bytes : {1, 255, 4097, (1 << 20) + 1, 1 << 22}) {
    CAPTURE(num_bytes);
    const DeviceBytes data(num_bytes);
    PinnedBytes sent(num_bytes), back(num_bytes);
    const int rounds = num_bytes < 10000 ? 100 : 5;
    for (int round = 0; round < rounds; ++round) {
      CAPTURE(round);
      sent.set(numbered(num_bytes, round));
      on(producer, [&] {
        enqueue_to_device(data.data(), sent.data(), num_bytes);
        produced.record();
      });
      consumer.wait_for(produced);
      on(consumer, [&] {
        enqueue_to_host(back.data(), data.data(), num_bytes);
        wait_for_stream();  // no thread waits for the producer
      });
      CHECK(back.bytes() == sent.bytes());
    }
  }
}

TEST_CASE("device: a wait for a mark ignores later marks of the same event") {
  if (!usable()) return;
  constexpr std::int64_t num_bytes = 1 << 20;
  Stream producer, consumer;
  Event produced, consumed;
  const DeviceBytes data(num_bytes);
  const PinnedBytes seen(num_bytes);
  on(producer, [&] {
    enqueue_fill(data.data(), 1, num_bytes);
    produced.record();
  });
  consumer.wait_for(produced);
  on(consumer, [&] {
    enqueue_to_host(seen.data(), data.data(), num_bytes);
    consumed.record();
  });
  producer.wait_for(consumed);  // with the later mark, both streams would wait for each other
  on(producer, [&] {
    enqueue_fill(data.data(), 2, num_bytes);
    produced.record();
  });
  on(consumer, [] { wait_for_stream(); });
  CHECK(seen.bytes() == Bytes(num_bytes, 1));
  wait_for_event(produced);
  CHECK(data.bytes() == Bytes(num_bytes, 2));
}

TEST_CASE("device: a wait for an event that was never recorded returns") {
  if (!usable()) return;
  const Event event;
  CHECK(event.reached());
  current_stream().wait_for(event);
  wait_for_event(event);
  check_works(current_stream());
}

TEST_CASE("device: a mark is reached without a wait") {
  if (!usable()) return;
  const DeviceBytes data(4097);
  const PinnedBytes seen(4097);
  Event event;
  enqueue_fill(data.data(), 3, 4097);
  enqueue_to_host(seen.data(), data.data(), 4097);
  event.record();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!event.reached() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  REQUIRE(event.reached());
  CHECK(seen.bytes() == Bytes(4097, 3));
}

TEST_CASE("device: a wait for an event calls meanwhile") {
  if (!usable()) return;
  const LongWork work;
  Event event;
  int calls = 0;
  for (int attempt = 0; attempt < 20 && calls == 0; ++attempt) {  // a device may have been faster
    work.enqueue();
    event.record();
    wait_for_event(event, [&] { ++calls; });
    CHECK(event.reached());
  }
  CHECK(calls > 0);
}

TEST_CASE("device: meanwhile ends the wait by throwing, and the work continues") {
  if (!usable()) return;
  const LongWork work;
  Event event;
  std::string thrown;
  for (int attempt = 0; attempt < 20 && thrown.empty(); ++attempt) {  // as above
    work.enqueue();
    event.record();
    try {
      wait_for_event(event, [] { throw std::runtime_error("enough"); });
    } catch (const std::runtime_error& error) {
      thrown = error.what();
    }
  }
  CHECK(thrown == "enough");
  wait_for_stream();
  CHECK(event.reached());
  check_works(current_stream());
}

TEST_CASE("device: the innermost UseStream sets the current stream") {
  if (!usable()) return;
  Stream first, second;
  Stream* const own = &current_stream();
  CHECK(own != &first);
  {
    const UseStream outer(first);
    CHECK(&current_stream() == &first);
    {
      const UseStream inner(second);
      CHECK(&current_stream() == &second);
      on(first, [&] { CHECK(&current_stream() == &first); });
      CHECK(&current_stream() == &second);
    }
    CHECK(&current_stream() == &first);
    CHECK_THROWS_AS(on(second, [] { throw std::runtime_error("out of the block"); }),
                    std::runtime_error);
    CHECK(&current_stream() == &first);
  }
  CHECK(&current_stream() == own);
}

TEST_CASE("device: every host thread has its own current stream") {
  if (!usable()) return;
  Stream used;
  Stream* const own = &current_stream();
  on(used, [&] {
    in_a_thread([&] {
      Stream* const other = &current_stream();
      CHECK(other != own);
      CHECK(other != &used);
      CHECK(other == &current_stream());
      check_works(current_stream());
    });
    CHECK(&current_stream() == &used);
  });
}

TEST_CASE("device: host threads synchronize work by events") {
  if (!usable()) return;
  constexpr int num_threads = 4, num_links = 32;
  constexpr std::int64_t num_bytes = 4097;
  const DeviceBytes chain((num_links + 1) * num_bytes);
  const Bytes sent = numbered(num_bytes, 5);
  std::vector<Event> events(num_links);
  put(chain.data(), sent.data(), num_bytes);
  std::atomic<int> turn = 0;
  const auto copy_links = [&](int thread) {
    for (int link = thread; link < num_links; link += num_threads) {
      while (turn.load() != link) std::this_thread::yield();
      try {
        if (link > 0) current_stream().wait_for(events[static_cast<std::size_t>(link) - 1]);
        unsigned char* const source = chain.data() + link * num_bytes;
        enqueue_on_device(source + num_bytes, source, num_bytes);
        events[link].record();
      } catch (const std::exception& error) {
        FAIL_CHECK(error.what());
      }
      turn.store(link + 1);  // after an error too, or the others would wait forever
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < num_threads; ++thread) threads.emplace_back(copy_links, thread);
  for (std::thread& thread : threads) thread.join();
  current_stream().wait_for(events.back());
  Bytes back(num_bytes);
  get(back.data(), chain.data() + num_links * num_bytes, num_bytes);
  CHECK(back == sent);
}

TEST_CASE("device: a destroyed stream still finishes its work") {
  if (!usable()) return;
  constexpr std::int64_t num_bytes = (1 << 20) + 1;
  const DeviceBytes data(num_bytes), copy(num_bytes);
  const PinnedBytes sent(numbered(num_bytes, 6)), back(num_bytes);
  Event done;
  {
    Stream stream;
    const UseStream use(stream);
    enqueue_to_device(data.data(), sent.data(), num_bytes);
    enqueue_on_device(copy.data(), data.data(), num_bytes);
    enqueue_to_host(back.data(), copy.data(), num_bytes);
    done.record();
  }
  wait_for_event(done);
  CHECK(back.bytes() == sent.bytes());
}

TEST_CASE("device: events and graphs may move") {
  if (!usable()) return;
  const DeviceBytes data(16);
  Graph graph([&] { enqueue_fill(data.data(), 4, 16); });
  Event event, assigned;
  event.record();
  Graph moved = std::move(graph);
  moved.launch();
  assigned.record();
  Event moved_event = std::move(assigned);
  event = std::move(moved_event);
  wait_for_event(event);
  CHECK(event.reached());
  CHECK(data.bytes() == Bytes(16, 4));
}

}  // namespace device_streams_test
