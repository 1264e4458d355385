#include <doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm_cases.hpp"
#include "common/base/error.hpp"
#include "common/comm/threads.hpp"

using zeroproof::Communicator;
using zeroproof::IntegerReduce;
using zeroproof::run_ranks;
using zeroproof::Span;
using zeroproof::ThreadWorld;
using zeroproof_test::all_gather_is_right;
using zeroproof_test::all_reduce_is_right;
using zeroproof_test::all_to_all_is_right;
using zeroproof_test::broadcast_is_right;
using zeroproof_test::Bytes;
using zeroproof_test::writable;

TEST_CASE("threads: collectives against brute force") {
  for (const int world_size : {1, 2, 3, 5, 8}) {
    CAPTURE(world_size);
    ThreadWorld world(world_size);
    run_ranks(world, [&](Communicator& comm) {
      CHECK(comm.world_size() == world_size);
      CHECK(comm.name() == "threads:" + std::to_string(world_size));
      for (std::int64_t round = 0; round < 60; ++round) {
        CHECK(all_to_all_is_right(comm, round));
        CHECK(all_gather_is_right(comm, round, round % 2 == 0));
        CHECK(broadcast_is_right(comm, round));
        CHECK(all_reduce_is_right(comm, round, IntegerReduce::sum));
        CHECK(all_reduce_is_right(comm, round, IntegerReduce::max));
        CHECK(all_reduce_is_right(comm, round, IntegerReduce::bitwise_or));
      }
    });
  }
}

TEST_CASE("threads: no rank leaves a barrier before all have arrived") {
  ThreadWorld world(5);
  std::atomic<int> come{0};
  run_ranks(world, [&](Communicator& comm) {
    for (int round = 1; round <= 50; ++round) {
      ++come;
      comm.barrier();
      CHECK(come >= 5 * round);
      comm.barrier();
    }
  });
}

TEST_CASE("threads: a send buffer may be reused as soon as the call returns") {
  ThreadWorld world(4);
  run_ranks(world, [](Communicator& comm) {
    Bytes mine(10'000);
    std::vector<Bytes> recv(4, Bytes(mine.size()));
    for (int round = 0; round < 100; ++round) {
      std::fill(mine.begin(), mine.end(), static_cast<std::byte>(4 * round + comm.rank()));
      comm.all_gather(mine, writable(recv));
      std::fill(mine.begin(), mine.end(), std::byte{0xee});
      for (int rank = 0; rank < 4; ++rank) {
        CHECK(recv[rank] == Bytes(mine.size(), static_cast<std::byte>(4 * round + rank)));
      }
    }
  });
}

TEST_CASE("threads: a world and its communicators are usable for many runs") {
  ThreadWorld world(3);
  std::vector<std::unique_ptr<Communicator>> kept;
  for (int rank = 0; rank < 3; ++rank) kept.push_back(world.communicator(rank));
  for (int run_number = 0; run_number < 20; ++run_number) {
    run_ranks(world, [&](Communicator& comm) {
      Communicator& mine = run_number % 2 == 0 ? comm : *kept[comm.rank()];
      CHECK(all_reduce_is_right(mine, run_number, IntegerReduce::sum));
    });
  }
  // The threads may also be the caller's own; the end of earlier runs must not count as leaving.
  std::vector<std::thread> threads;
  for (const auto& comm : kept) threads.emplace_back([&comm] { comm->barrier(); });
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("threads: the others wait for a slow rank within the limit") {
  ThreadWorld world(3, std::chrono::seconds(20));
  std::array<std::atomic<bool>, 3> arrived{};
  std::atomic<int> waited{0};
  run_ranks(world, [&](Communicator& comm) {
    for (std::size_t round = 0; round < 3; ++round) {
      if (comm.rank() == static_cast<int>(round)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        arrived[round] = true;
      }
      comm.barrier();
      if (arrived[round]) ++waited;
    }
  });
  CHECK(waited == 9);  // 3 ranks in 3 rounds
}

TEST_CASE("threads: invalid world sizes and ranks") {
  CHECK_THROWS_AS(ThreadWorld(0), zeroproof::Error);
  ThreadWorld world(2);
  CHECK_THROWS_AS(world.communicator(2), zeroproof::Error);
  CHECK_THROWS_AS(world.communicator(-1), zeroproof::Error);
}

TEST_CASE("slow: threads move a block of more than 2^31 bytes") {
  constexpr std::size_t num_bytes = (std::size_t{1} << 31) + 5;
  // calloc: unwritten pages use no memory.
  const auto zeros = [] {
    return std::unique_ptr<std::byte, void (*)(void*)>(
        static_cast<std::byte*>(std::calloc(num_bytes, 1)), std::free);
  };
  ThreadWorld world(2);
  run_ranks(world, [&](Communicator& comm) {
    const auto data = zeros();
    REQUIRE(data);
    const Span<std::byte> all(data.get(), num_bytes);
    const std::array<std::size_t, 4> marks = {0, (std::size_t{1} << 31) - 1, std::size_t{1} << 31,
                                              num_bytes - 1};
    if (comm.rank() == 1) {
      for (const std::size_t mark : marks) all[mark] = static_cast<std::byte>(1 + mark % 251);
    }
    comm.broadcast(all, 1);
    for (const std::size_t mark : marks) CHECK(all[mark] == static_cast<std::byte>(1 + mark % 251));
  });
}
