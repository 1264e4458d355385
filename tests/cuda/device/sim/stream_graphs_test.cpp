// Graphs of simulated streams: unordered work runs in either order in them too.

#include <doctest.h>

#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "tests/cuda/device/sim/streams_support.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/support/skip.hpp"

namespace stream_graphs_test {

using namespace zeroproof;
using namespace zeroproof::cuda::device;
using namespace zeroproof::sim_test;
using tests::expect_error;

TEST_CASE("simulated streams: the branches of a graph run in both orders, between fork and join") {
  std::vector<std::string> ran;
  for (const StreamOrder order : both_orders) {
    const UseOrder use(order);
    Stream first, second;
    Event forked, joined;
    std::string names;
    const UseStream use_first(first);
    const Graph graph([&] {
      enqueue_name(names, 'a');
      forked.record();
      second.wait_for(forked);
      on(second, [&] {
        enqueue_name(names, 'b');
        joined.record();
      });
      enqueue_name(names, 'c');
      first.wait_for(joined);
      enqueue_name(names, 'd');
    });
    wait_for_stream();
    CHECK(names.empty());
    for (int round = 0; round < 3; ++round) graph.launch();
    CHECK(names.empty());
    wait_for_stream();
    REQUIRE(names.size() == 12);
    const std::string once = names.substr(0, 4);
    CHECK((once == "abcd" || once == "acbd"));
    CHECK(names == once + once + once);
    ran.push_back(once);
  }
  CHECK(ran[0] != ran[1]);
}

TEST_CASE("simulated streams: early, a launch of a graph runs all its branches") {
  const UseOrder use(StreamOrder::early);
  Stream first, second;
  Event forked, joined;
  std::string names;
  const UseStream use_first(first);
  const Graph graph([&] {
    forked.record();
    second.wait_for(forked);
    on(second, [&] {
      enqueue_name(names, 'a');
      joined.record();
    });
    first.wait_for(joined);
    enqueue_name(names, 'b');
  });
  CHECK(names.empty());
  graph.launch();
  CHECK(names == "ab");  // the first branch had to wait for the second one, enqueued after it
}

TEST_CASE("simulated streams: a missing wait in a branch of a graph is detected") {
  const auto right = [](bool waits) {
    Stream first, second;
    Event forked, joined;
    const DeviceWord word(0);
    const PinnedBytes back(1);
    const UseStream use(first);
    const Graph graph([&] {
      if (!waits) forked.record();  // before the work that the branch needs
      enqueue_fill(word.data(), 7, 1);
      if (waits) forked.record();
      second.wait_for(forked);
      on(second, [&] {
        enqueue_to_host(back.data(), word.data(), 1);
        joined.record();
      });
      first.wait_for(joined);
    });
    graph.launch();
    wait_for_stream();
    return back.data()[0] == 7;
  };
  CHECK(num_wrong([&] { return right(false); }) >= 1);
  CHECK(num_wrong([&] { return right(true); }) == 0);
}

TEST_CASE("simulated streams: launches are counted, those of a graph as one") {
  const DeviceWord word(1);
  const Graph graph([&] {
    launch(store_kernel, 1, block, word.data(), 2U);
    launch(store_kernel, 1, block, word.data(), 3U);
  });
  const cuda::DeviceCalls before = device_calls();
  launch(store_kernel, 1, block, word.data(), 4U);
  CHECK(device_calls().launches == before.launches + 1);
  graph.launch();
  CHECK(device_calls().launches == before.launches + 1);
  CHECK(device_calls().graph_launches == before.graph_launches + 1);
  unsigned seen = 0;
  launch(load_kernel, 1, block, word.data(), &seen);
  wait_for_stream();
  CHECK(seen == 3);
}

}  // namespace stream_graphs_test
