// Simulated streams run late, without an event in either order, or early, so that a missing wait is
// detected.

#include <doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.hpp"
#include "tests/cuda/device/sim/streams_support.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/support/skip.hpp"

namespace streams_test {

using namespace zeroproof;
using namespace zeroproof::cuda::device;
using namespace zeroproof::sim_test;
using tests::expect_error;

TEST_CASE("simulated streams: no work runs before a wait") {
  Stream other;
  Event event;
  std::string names;
  enqueue_name(names, 'a');
  enqueue_name(names, 'b');
  event.record();
  other.wait_for(event);
  CHECK(names.empty());
  wait_for_stream();
  CHECK(names == "ab");
}

TEST_CASE("simulated streams: work without events runs in both orders") {
  for (const bool swapped : {false, true}) {
    CAPTURE(swapped);
    std::vector<std::string> ran;
    for (const StreamOrder order : both_orders) {
      const UseOrder use(order);
      Stream a, b;
      std::string names;
      on(a, [&] { enqueue_name(names, 'a'); });
      on(b, [&] { enqueue_name(names, 'b'); });
      wait_for(swapped ? b : a);
      wait_for(swapped ? a : b);
      ran.push_back(names);
    }
    CHECK(ran ==
          (swapped ? std::vector<std::string>{"ba", "ab"} : std::vector<std::string>{"ab", "ba"}));
  }
}

TEST_CASE("simulated streams: work between a fork and a join is not ordered") {
  std::vector<std::string> ran;
  for (const StreamOrder order : both_orders) {
    const UseOrder use(order);
    Stream first, second;
    Event forked, joined;
    std::string names;
    on(first, [&] {
      enqueue_name(names, 'a');
      forked.record();
      enqueue_name(names, 'b');
    });
    second.wait_for(forked);  // can continue only when the first stream has begun
    on(second, [&] {
      enqueue_name(names, 'c');
      joined.record();
    });
    first.wait_for(joined);
    on(first, [&] { enqueue_name(names, 'd'); });
    wait_for(first);
    ran.push_back(names);
  }
  CHECK(ran == std::vector<std::string>{"abcd", "acbd"});
}

TEST_CASE("simulated streams: work that an event orders runs in that order") {
  for (const StreamOrder order : every_order) {
    const UseOrder use(order);
    for (const bool swapped : {false, true}) {
      CAPTURE(swapped);
      Stream a, b;
      Event event;
      std::string names;
      on(a, [&] {
        enqueue_name(names, 'a');
        event.record();
      });
      b.wait_for(event);
      on(b, [&] { enqueue_name(names, 'b'); });
      wait_for(swapped ? b : a);
      wait_for(swapped ? a : b);
      CHECK(names == "ab");
    }
  }
}

TEST_CASE("simulated streams: awaited first, other streams run only needed work") {
  Stream asked, needed, other;
  Event event;
  std::string names;
  on(other, [&] { enqueue_name(names, 'o'); });
  on(needed, [&] {
    enqueue_name(names, 'n');
    event.record();
    enqueue_name(names, 'x');
  });
  asked.wait_for(event);
  on(asked, [&] { enqueue_name(names, 'a'); });
  wait_for(asked);
  CHECK(names == "na");
  wait_for(needed);
  wait_for(other);
  CHECK(names == "naxo");
}

TEST_CASE("simulated streams: awaited last, other streams run all they can") {
  const UseOrder use(StreamOrder::awaited_last);
  Stream asked, other;
  Event event;
  std::string names;
  on(asked, [&] {
    enqueue_name(names, 'a');
    event.record();
  });
  on(other, [&] {
    enqueue_name(names, 'o');
    enqueue_name(names, 'p');
    other.wait_for(event);
    enqueue_name(names, 'q');
  });
  wait_for(asked);
  CHECK(names.substr(0, 3) == "opa");
  wait_for(other);
  CHECK(names == "opaq");
}

TEST_CASE("simulated streams: a chain of events over five streams") {
  for (const StreamOrder order : every_order) {
    const UseOrder use(order);
    std::vector<Stream> streams(5);
    std::vector<Event> events(5);
    std::string names;
    for (std::size_t i = 0; i < 5; ++i) {
      if (i > 0) streams[i].wait_for(events[i - 1]);
      on(streams[i], [&] {
        enqueue_name(names, static_cast<char>('a' + i));
        events[i].record();
      });
    }
    wait_for(streams[4]);
    CHECK(names == "abcde");
  }
}

TEST_CASE("simulated streams: a read that does not wait for the write is detected") {
  for (const bool reader_is_asked : {true, false}) {
    CAPTURE(reader_is_asked);
    const auto right = [&](bool waits) {
      Stream writer, reader;
      Event written;
      const DeviceWord word(1);
      unsigned seen = 0;
      on(writer, [&] {
        launch(store_kernel, 1, block, word.data(), 7U);
        written.record();
      });
      if (waits) reader.wait_for(written);
      on(reader, [&] { launch(load_kernel, 1, block, word.data(), &seen); });
      wait_for(reader_is_asked ? reader : writer);
      wait_for(reader_is_asked ? writer : reader);
      return seen == 7;
    };
    CHECK(num_wrong([&] { return right(false); }) >= 1);
    CHECK(num_wrong([&] { return right(true); }) == 0);
  }
}

TEST_CASE("simulated streams: a write that does not wait for the previous read is detected") {
  for (const bool reader_is_asked : {true, false}) {
    CAPTURE(reader_is_asked);
    const auto right = [&](bool waits) {
      Stream reader, writer;
      Event read;
      const DeviceWord word(1);
      unsigned seen = 0;
      on(reader, [&] {
        launch(load_kernel, 1, block, word.data(), &seen);
        read.record();
      });
      if (waits) writer.wait_for(read);
      on(writer, [&] { launch(store_kernel, 1, block, word.data(), 7U); });
      wait_for(reader_is_asked ? reader : writer);
      wait_for(reader_is_asked ? writer : reader);
      return seen == 1;
    };
    CHECK(num_wrong([&] { return right(false); }) >= 1);
    CHECK(num_wrong([&] { return right(true); }) == 0);
  }
}

TEST_CASE("simulated streams: early, work runs when it is enqueued") {
  const UseOrder use(StreamOrder::early);
  Stream other;
  Event event;
  std::string names;
  enqueue_name(names, 'a');
  CHECK(names == "a");
  event.record();
  CHECK(event.reached());
  other.wait_for(event);
  on(other, [&] { enqueue_name(names, 'b'); });
  CHECK(names == "ab");
  wait_for_stream();
}

TEST_CASE("simulated streams: early, work enqueued in another order runs with the next call") {
  Stream a, b;
  Event event;
  std::string names;
  on(a, [&] {
    enqueue_name(names, 'a');
    event.record();
  });
  const UseOrder use(StreamOrder::early);
  b.wait_for(event);
  CHECK(names == "a");
  on(b, [&] { enqueue_name(names, 'b'); });
  CHECK(names == "ab");
}

TEST_CASE("simulated streams: only early, a write before the host has read is detected") {
  const auto right = [](bool waits) {
    Event arrived;
    const DeviceWord word(1);
    const PinnedBytes slot(1);
    enqueue_to_host(slot.data(), word.data(), 1);
    arrived.record();
    launch(store_kernel, 1, block, word.data(), 2U);
    if (waits) wait_for_event(arrived);
    unsigned char seen = waits ? slot.data()[0] : 0;
    enqueue_to_host(slot.data(), word.data(), 1);  // the next step reuses the slot
    if (!waits) {
      if (!arrived.reached()) wait_for_event(arrived);
      seen = slot.data()[0];
    }
    wait_for_stream();
    return seen == 1;
  };
  for (const StreamOrder order : every_order) {
    const UseOrder use(order);
    CHECK(right(true));
    CHECK(right(false) == (order != StreamOrder::early));
  }
}

TEST_CASE("simulated streams: early, the next wait throws the error of work, once") {
  const UseOrder use(StreamOrder::early);
  Stream failing, other;
  Event end;
  std::string names;
  on(failing, [&] {
    CHECK_NOTHROW(cuda::sim::enqueue([] { throw 7; }));
    CHECK_NOTHROW(enqueue_name(names, 'x'));
    end.record();
  });
  CHECK_NOTHROW(wait_for(other));
  CHECK_THROWS_AS(wait_for(failing), int);
  CHECK_NOTHROW(wait_for(failing));
  CHECK(names.empty());
  on(failing, [&] { enqueue_name(names, 'y'); });
  CHECK(names == "y");
}

TEST_CASE("simulated streams: polls of an event run device work in small steps") {
  for (const StreamOrder order : both_orders) {
    const UseOrder use(order);
    Stream first, second;
    Event half, whole;
    int ran = 0;
    const auto enqueue_some = [&] {
      for (int i = 0; i < 50; ++i) cuda::sim::enqueue([&] { ++ran; });
    };
    on(first, [&] {
      enqueue_some();
      half.record();
    });
    second.wait_for(half);
    on(second, [&] {
      enqueue_some();
      whole.record();
    });
    CHECK_FALSE(whole.reached());
    CHECK(ran < 100);
    int polls = 0;
    while (polls < 100000 && !whole.reached()) ++polls;
    CHECK(whole.reached());
    CHECK(half.reached());
    CHECK(ran == 100);
  }
}

TEST_CASE("simulated streams: repeated polls do not slow the device down") {
  for (const StreamOrder order : both_orders) {
    const UseOrder use(order);
    Stream stream;
    for (int round = 0; round < 2; ++round) {
      Event end;
      int ran = 0, polls = 1;
      on(stream, [&] {
        for (int i = 0; i < 1000; ++i) cuda::sim::enqueue([&] { ++ran; });
        end.record();
      });
      CHECK_FALSE(end.reached());
      CHECK(ran == 1);  // in the second round too
      while (polls < 1000 && !end.reached()) ++polls;
      CHECK(ran == 1000);
      CHECK(polls <= 15);
    }
  }
}

TEST_CASE("simulated streams: a poll does not wait for work on another thread") {
  std::string names;
  Stream stream;
  Event event, before;
  enqueue_name(names, 'a');
  before.record();
  wait_for_stream();
  std::atomic<bool> started = false, queried = false;
  const auto wait_until = [](const std::atomic<bool>& flag) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!flag && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return flag.load();
  };
  bool queried_in_time = false;
  on(stream, [&] {
    cuda::sim::enqueue([&] {
      started = true;
      queried_in_time = wait_until(queried);
    });
    event.record();
  });
  std::thread waiter([&] { wait_for_event(event); });
  const bool began = wait_until(started);
  const bool reached = event.reached(), before_reached = before.reached();
  queried = true;
  waiter.join();
  CHECK(began);
  CHECK_FALSE(reached);
  CHECK(before_reached);
  CHECK(queried_in_time);
  CHECK(event.reached());
}

TEST_CASE("simulated streams: work of a destroyed stream is done before any next wait ends") {
  bool done = false;
  {
    Stream stream;
    on(stream, [&] { cuda::sim::enqueue([&] { done = true; }); });
  }
  CHECK_FALSE(done);
  Stream other;
  wait_for(other);
  CHECK(done);
}

TEST_CASE("simulated streams: work of one thread runs on the thread that waits") {
  Stream stream;
  Event event;
  std::thread::id ran_on;
  std::thread([&] {
    const UseStream use(stream);
    cuda::sim::enqueue([&] { ran_on = std::this_thread::get_id(); });
    event.record();
  }).join();
  CHECK(ran_on == std::thread::id());
  wait_for_event(event);
  CHECK(ran_on == std::this_thread::get_id());
}

}  // namespace streams_test
