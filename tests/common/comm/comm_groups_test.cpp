#include <doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm_group_cases.hpp"
#include "common/base/error.hpp"
#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"

using zeroproof::Error;
using zeroproof::ErrorCode;
using zeroproof::run_ranks;
using zeroproof::ThreadWorld;
using namespace zeroproof_test;

TEST_CASE("groups: of threads, against brute force") {
  for (int world_size = 1; world_size <= 7; ++world_size) {
    CAPTURE(world_size);
    ThreadWorld world(world_size);
    run_ranks(world, [&](Communicator& comm) {
      for (std::int64_t round = 0; round < 5; ++round) CHECK(groups_are_right(comm, round));
    });
  }
}

TEST_CASE("groups: rows and columns of a grid at the same time") {
  for (const int columns : {1, 2, 3}) {
    ThreadWorld world(6);
    run_ranks(world, [&](Communicator& comm) { CHECK(grid_is_right(comm, columns, columns)); });
  }
}

TEST_CASE("groups: another thread uses the group while the rank uses the world") {
  ThreadWorld world(5);
  run_ranks(world, [&](Communicator& comm) {
    const auto group = comm.split(comm.rank() % 2);
    bool right = true;
    std::thread beside([&] {
      for (std::int64_t round = 0; round < 200; ++round)
        right &= all_collectives_are_right(*group, round);
    });
    for (std::int64_t round = 0; round < 200; ++round)
      CHECK(all_collectives_are_right(comm, round + 7));
    beside.join();
    CHECK(right);
  });
}

TEST_CASE("groups: usable for many runs, and after their parent communicator") {
  ThreadWorld world(4);
  std::vector<std::unique_ptr<Communicator>> groups(4);
  run_ranks(world, [&](Communicator& comm) { groups[comm.rank()] = comm.split(comm.rank() / 2); });
  for (std::int64_t round = 0; round < 10; ++round) {
    run_ranks(world, [&](Communicator& comm) {
      CHECK(all_collectives_are_right(*groups[comm.rank()], round));
    });
  }
}

TEST_CASE("groups: of one rank alone") {
  const auto comm = zeroproof::make_self_communicator();
  const auto group = comm->split(3);
  CHECK(group_is_right(*group, {0}, 0));
  for (std::int64_t round = 0; round < 5; ++round) {
    CHECK(groups_are_right(*comm, round));
    CHECK(float_sum_is_right(*group, round));
    CHECK(window_is_right(*group, round));
  }
  CHECK(!comm->host_of(0).empty());
  group->abort("no more input");
  CHECK_THROWS_WITH_AS(
      comm->barrier(),
      "rank 0 (rank 0 of the world) ended: no more input (the other ranks cannot go on "
      "without it); fix the error that this rank reports first",
      Error);
}

TEST_CASE("shared windows: of threads, and of their groups") {
  for (int world_size = 1; world_size <= 7; ++world_size) {
    CAPTURE(world_size);
    ThreadWorld world(world_size);
    run_ranks(world, [&](Communicator& comm) {
      for (std::int64_t round = 0; round < 10; ++round) {
        CHECK(window_is_right(comm, round));
        CHECK(window_is_right(*comm.split(comm.rank() % 2), round));
      }
    });
  }
}

TEST_CASE("sums of floats: uneven and empty parts, groups") {
  for (int world_size = 1; world_size <= 7; ++world_size) {
    CAPTURE(world_size);
    ThreadWorld world(world_size);
    run_ranks(world, [&](Communicator& comm) {
      const auto group = comm.split(comm.rank() % 2);
      for (std::int64_t round = 0; round < 20; ++round) {
        CHECK(float_sum_is_right(comm, round));
        CHECK(float_sum_is_right(*group, round));
      }
    });
  }
}

TEST_CASE("sums of floats: threads add from rank 0 upwards") {
  // 1e8 absorbs every 1 that comes after it, and none that comes before: the sum depends on the
  // order.
  const std::array<float, 4> of_rank = {3.0F, 1e8F, 1.0F, -1e8F};
  ThreadWorld world(4);
  run_ranks(world, [&](Communicator& comm) {
    const std::vector<float> send(4, of_rank[comm.rank()]);
    float got = -1;
    comm.native_reduce_scatter(send, std::vector<std::int64_t>(4, 1), Span<float>(&got, 1));
    CHECK(got == ((3.0F + 1e8F) + 1.0F) - 1e8F);
  });
}

namespace {

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

}  // namespace

TEST_CASE("groups, windows and sums: wrong arguments") {
  const auto fresh = [] { return zeroproof::make_self_communicator(); };
  const std::vector<float> send(4);
  std::vector<float> recv(4);
  const auto sum = [&](const std::vector<std::int64_t>& counts, std::size_t recv_count) {
    return code_of([&] {
      fresh()->native_reduce_scatter(send, counts, Span<float>(recv.data(), recv_count));
    });
  };
  CHECK(sum({4}, 4) == ErrorCode::internal);  // nothing wrong here
  CHECK(sum({4}, 3) == ErrorCode::invalid_argument);
  CHECK(sum({3}, 3) == ErrorCode::invalid_argument);
  CHECK(sum({5}, 4) == ErrorCode::invalid_argument);
  CHECK(sum({-1}, 4) == ErrorCode::invalid_argument);
  CHECK(sum({2, 2}, 2) == ErrorCode::invalid_argument);
  CHECK(sum({}, 0) == ErrorCode::invalid_argument);
  CHECK(code_of([&] { fresh()->split(-1); }) == ErrorCode::invalid_argument);
  CHECK(code_of([&] { fresh()->shared_window(-1); }) == ErrorCode::invalid_argument);
  CHECK(code_of([&] { fresh()->shared_window(std::int64_t{1} << 60); }) == ErrorCode::unavailable);
}
