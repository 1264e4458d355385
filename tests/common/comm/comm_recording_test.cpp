#include <doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "comm_group_cases.hpp"
#include "common/base/error.hpp"
#include "common/comm/collective_call.hpp"
#include "common/comm/recording.hpp"
#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"

using zeroproof::Collective;
using zeroproof::RecordingCommunicator;
using zeroproof::run_ranks;
using zeroproof::ThreadWorld;
using zeroproof::Traffic;
using zeroproof::TrafficEntry;
using namespace zeroproof_test;

namespace {

/// The same blocks as all_to_all_is_right() and all_gather_is_right() move.
TrafficEntry expected_all_to_all(int rank, int world_size, std::int64_t round) {
  TrafficEntry expected{1, 0, 0, 0, 0};
  for (int peer = 0; peer < world_size; ++peer) {
    if (peer == rank) continue;
    expected.bytes_sent += count_for(round, rank, peer);
    expected.bytes_received += count_for(round, peer, rank);
    expected.messages_sent += count_for(round, rank, peer) > 0 ? 1 : 0;
    expected.messages_received += count_for(round, peer, rank) > 0 ? 1 : 0;
  }
  return expected;
}

TrafficEntry expected_all_gather(int rank, int world_size, std::int64_t round) {
  TrafficEntry expected{1, 0, 0, 0, 0};
  for (int peer = 0; peer < world_size; ++peer) {
    if (peer == rank) continue;
    expected.bytes_sent += count_for(round, rank, 0);
    expected.bytes_received += count_for(round, peer, 0);
    expected.messages_sent += count_for(round, rank, 0) > 0 ? 1 : 0;
    expected.messages_received += count_for(round, peer, 0) > 0 ? 1 : 0;
  }
  return expected;
}

}  // namespace

TEST_CASE("recording: every collective against its formula, uneven and empty blocks") {
  for (int world_size = 1; world_size <= 7; ++world_size) {
    CAPTURE(world_size);
    ThreadWorld world(world_size);
    run_ranks(world, [&](Communicator& inner) {
      RecordingCommunicator comm(inner);
      const int self = comm.rank();
      CHECK(comm.name() == inner.name());
      CHECK(comm.host_of(0) == inner.host_of(0));
      for (std::int64_t round = 0; round < 10; ++round) {
        CHECK(all_to_all_is_right(comm, round));
        CHECK(comm.traffic().of(Collective::all_to_all) ==
              expected_all_to_all(self, world_size, round));
        CHECK(all_gather_is_right(comm, round, false));
        CHECK(comm.traffic().of(Collective::all_gather) ==
              expected_all_gather(self, world_size, round));
        comm.reset();
        CHECK(comm.traffic() == Traffic{});
      }
    });
  }
}

TEST_CASE("recording: reductions, broadcasts and sums, by hand") {
  ThreadWorld world(3);
  run_ranks(world, [&](Communicator& inner) {
    RecordingCommunicator comm(inner);
    const bool root = comm.rank() == 1;
    Bytes data(10);
    comm.broadcast(data, 1);
    comm.broadcast(Span<std::byte>(), 1);
    CHECK(comm.traffic().of(Collective::broadcast) ==
          (root ? TrafficEntry{2, 2, 0, 20, 0} : TrafficEntry{2, 0, 1, 0, 10}));
    std::vector<std::uint64_t> words(5);
    comm.all_reduce(words, IntegerReduce::sum);
    comm.all_reduce(Span<std::uint64_t>(), IntegerReduce::sum);
    CHECK(comm.traffic().of(Collective::all_reduce) == TrafficEntry{2, 2, 2, 80, 80});
    comm.barrier();
    CHECK(comm.traffic().of(Collective::barrier) == TrafficEntry{1, 0, 0, 0, 0});
    const std::vector<std::int64_t> counts = {0, 3, 4};
    const std::vector<float> send(7, 1.0F);
    std::vector<float> sum(counts[comm.rank()]);
    comm.native_reduce_scatter(send, counts, sum);
    CHECK(comm.traffic().of(Collective::reduce_scatter) ==
          (comm.rank() == 0   ? TrafficEntry{1, 2, 0, 28, 0}
           : comm.rank() == 1 ? TrafficEntry{1, 1, 2, 16, 24}
                              : TrafficEntry{1, 1, 2, 12, 32}));
    const TrafficEntry total = comm.traffic().total();
    CHECK(total.calls == 6);
    CHECK(total.bytes_sent == (root ? 20 : 0) + 80 + (comm.rank() == 0 ? 28 : root ? 16 : 12));
  });
}

TEST_CASE("recording: groups, also groups of groups, report into the same record") {
  ThreadWorld world(5);
  run_ranks(world, [&](Communicator& inner) {
    RecordingCommunicator comm(inner);
    const auto group = comm.split(comm.rank() % 2);  // of 3 and of 2
    const auto nested = group->split(0);
    std::vector<std::uint64_t> words(2);
    comm.all_reduce(words, IntegerReduce::sum);
    group->all_reduce(words, IntegerReduce::sum);
    std::thread([&] { nested->all_reduce(words, IntegerReduce::sum); }).join();
    const std::int64_t others = 4 + 2 * (group->world_size() - 1);
    CHECK(comm.traffic().of(Collective::all_reduce) ==
          TrafficEntry{3, others, others, 16 * others, 16 * others});
    CHECK(comm.traffic().of(Collective::split) == TrafficEntry{2, 0, 0, 0, 0});
    const auto window = group->shared_window(100);
    CHECK(comm.traffic().of(Collective::shared_window) == TrafficEntry{1, 0, 0, 0, 0});
  });
}

TEST_CASE("recording: a call that fails is not counted") {
  const auto inner = zeroproof::make_self_communicator();
  RecordingCommunicator comm(*inner);
  comm.abort("no more input");
  CHECK_THROWS_AS(comm.barrier(), zeroproof::Error);
  CHECK(comm.traffic() == Traffic{});
}

TEST_CASE("collective calls: ranks are named with their number in the world and their host") {
  using zeroproof::describe_ranks;
  const std::vector<int> one = {2};
  const std::vector<int> three = {0, 2, 3};
  const zeroproof::RankNames group{{1, 4, 5, 9}, {}};
  const zeroproof::RankNames hosts{{}, {"a", "a", "b", "b"}};
  const zeroproof::RankNames both{{1, 4, 5, 9}, {"a", "a", "b", "b"}};
  CHECK(describe_ranks(one) == "rank 2");
  CHECK(describe_ranks(three) == "ranks 0, 2 and 3");
  CHECK(describe_ranks(one, group) == "rank 2 (rank 5 of the world)");
  CHECK(describe_ranks(three, group) == "ranks 0, 2 and 3 (ranks 1, 5 and 9 of the world)");
  CHECK(describe_ranks(one, hosts) == "rank 2 on node b");
  CHECK(describe_ranks(three, hosts) == "ranks 0, 2 and 3 on nodes a and b");
  CHECK(describe_ranks(one, both) == "rank 2 (rank 5 of the world) on node b");
  const zeroproof::CollectiveCall call;
  const std::string absent = absent_error(one, call, std::chrono::seconds(1), hosts).what();
  CHECK(absent.find("rank 2 on node b did not arrive at barrier #0 within 1 s (") == 0);
  const std::string left = left_error(one, call, hosts).what();
  CHECK(left.find("rank 2 on node b left without calling") == 0);
  const std::string interrupted = interrupted_error(one, call, hosts).what();
  CHECK(interrupted.find("rank 2 on node b is missing in barrier #0") == 0);
  const std::string ended = ended_error(2, "boom", both).what();
  CHECK(ended.find("rank 2 (rank 5 of the world) on node b ended: boom") == 0);
}
