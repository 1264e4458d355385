// Copies between ranks, with device work in every order: waits whose absence a GPU may hide.
// tests/cuda/device/copies_support.hpp describes the errors that each case detects.

#include <doctest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/error.hpp"
#include "common/comm/threads.hpp"
#include "cuda/comm/device_copies.hpp"
#include "tests/cuda/device/copies_support.hpp"
#include "tests/cuda/device/sim/streams_support.hpp"

namespace copies_test {

using namespace zeroproof;
using namespace zeroproof::cuda::device;
using namespace zeroproof::copies_test;
using sim_test::every_order;
using sim_test::StreamOrder;
using sim_test::UseOrder;

namespace {

/// In every order of streams, with each rank waiting first.
void check_ranks(int world_size,
                 const std::function<bool(Communicator& control, bool from_last)>& right) {
  for (const StreamOrder order : every_order) {
    for (const bool from_last : {false, true}) {
      CAPTURE(world_size);
      CAPTURE(from_last);
      const UseOrder use(order);
      ThreadWorld world(world_size);
      run_ranks_and_streams(world,
                            [&](Communicator& control) { CHECK(right(control, from_last)); });
    }
  }
}

}  // namespace

TEST_CASE("simulated copies: buffers are used before and after a call without waiting") {
  for (const int world_size : {1, 2, 3, 5}) {
    check_ranks(world_size, [](Communicator& control, bool from_last) {
      return gathers_are_right(control, from_last, 5);
    });
  }
}

TEST_CASE("simulated copies: sums on two otherwise unordered streams") {
  for (const int world_size : {1, 2, 3}) {
    check_ranks(world_size, [](Communicator& control, bool from_last) {
      return sums_are_right(control, from_last, {3, 3}) &&
             sums_are_right(control, from_last, {3, 40});
    });
  }
}

TEST_CASE("simulated copies: all ranks and a group of them in turn, on two streams") {
  for (const int world_size : {1, 2, 3, 4}) {
    check_ranks(world_size, [](Communicator& control, bool from_last) {
      return groups_in_turn_are_right(control, from_last, 3);
    });
  }
}

TEST_CASE("simulated copies: a communicator may be destroyed before its sums are done") {
  check_ranks(2, [](Communicator& control, bool from_last) {
    Stream stream;
    const DeviceBytes words(24);
    const PinnedBytes seen(24);
    on(stream, [&] {
      enqueue_fill(words.data(), 3, 24);
      cuda::make_device_copies(control)->all_reduce(on_device<std::uint64_t>(words, 24),
                                                    IntegerReduce::sum);
      enqueue_to_host(seen.data(), words.data(), 24);
    });
    {
      const auto copies = cuda::make_device_copies(control);
      on(stream,
         [&] { copies->all_reduce(on_device<std::uint64_t>(words, 24), IntegerReduce::max); });
    }  // frees its scratch memory on this thread's stream, which is waited for first
    wait_in_turn(control, from_last, {&current_stream(), &stream});
    return seen.bytes() == Bytes(24, 6);
  });
}

TEST_CASE("simulated copies: scratch memory of a failed sum can be freed on another stream") {
  for (const StreamOrder order : every_order) {
    const UseOrder use(order);
    ThreadWorld world(1);
    run_ranks_and_streams(world, [](Communicator& control) {
      Stream stream;
      const DeviceBytes words(24);
      {
        const auto copies = cuda::make_device_copies(control);
        control.abort("planted");
        const UseStream use_stream(stream);
        CHECK_THROWS_AS(copies->all_reduce(on_device<std::uint64_t>(words, 24), IntegerReduce::sum),
                        Error);
      }
      CHECK_NOTHROW(wait_for_stream());
      CHECK_NOTHROW(on(stream, [] { wait_for_stream(); }));
    });
  }
}

TEST_CASE("simulated copies: no work runs in a call") {
  ThreadWorld world(2);
  run_ranks_and_streams(world, [](Communicator& control) {
    const auto copies = cuda::make_device_copies(control);
    const DeviceBytes words(16);
    bool ran = false;
    cuda::sim::enqueue([&] { ran = true; });
    copies->broadcast(on_device<std::byte>(words, 16), 0);
    copies->all_reduce(on_device<std::uint64_t>(words, 16), IntegerReduce::bitwise_or);
    copies->barrier();
    CHECK_FALSE(ran);
    control.barrier();  // a rank that waits runs the work of others
    wait_for_stream();
  });
}

}  // namespace copies_test
