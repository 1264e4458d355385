// Ranks that are threads copy from each other's device memory. Skipped without a device;
// tests/cuda/device/sim runs the same file, and copies_test.cpp has the cases that only show there.

#include <doctest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "common/comm/threads.hpp"
#include "cuda/comm/device_copies.hpp"
#include "tests/common/comm/comm_group_cases.hpp"
#include "tests/cuda/device/copies_support.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"

namespace device_copies_test {

using namespace zeroproof;
using namespace zeroproof::cuda::device;
using namespace zeroproof::copies_test;
using cuda::make_device_copies;
using device_test::check_calls;
using device_test::usable;
using Blocks = std::vector<Span<std::byte>>;

namespace {

void check_ranks(int world_size, const std::function<void(Communicator& control)>& check) {
  CAPTURE(world_size);
  ThreadWorld world(world_size);
  run_ranks_and_streams(world, check);
}

/// Device ranks must have the host ranks' results, including sums and rounding.
bool float_sum_is_the_hosts(Communicator& control, Communicator& staged, std::int64_t round) {
  std::vector<std::int64_t> counts;
  std::vector<float> send;
  for (int part = 0; part < control.world_size(); ++part) {
    counts.push_back(zeroproof_test::count_for(round, part, 0));
    for (std::int64_t i = 0; i < counts.back(); ++i) {
      const std::uint64_t x = zeroproof_test::mixed(round, control.rank(), part, i);
      send.push_back(x % 5 == 0 ? -0.0F : (static_cast<float>(x % 20001) - 10000.0F) / 7.0F);
    }
  }
  std::vector<float> host(counts[control.rank()]);
  std::vector<float> device = host;
  control.native_reduce_scatter(send, counts, host);
  staged.native_reduce_scatter(send, counts, device);
  return host.empty() || std::memcmp(host.data(), device.data(), 4 * host.size()) == 0;
}

}  // namespace

TEST_CASE("device copies: collectives against brute force") {
  if (!usable()) return;
  for (const int world_size : {1, 2, 3, 5}) {
    check_ranks(world_size, [](Communicator& control) {
      StagedCommunicator comm(make_device_copies(control));
      CHECK(comm.name() == "copies:" + control.name());
      for (std::int64_t round = 0; round < 12; ++round) {
        CHECK(zeroproof_test::all_collectives_are_right(comm, round));
        CHECK(zeroproof_test::all_reduce_is_right(comm, round, IntegerReduce::max));
        CHECK(zeroproof_test::all_reduce_is_right(comm, round, IntegerReduce::bitwise_or));
        CHECK(zeroproof_test::float_sum_is_right(comm, round));
        CHECK(float_sum_is_the_hosts(control, comm, round));
      }
      CHECK(zeroproof_test::float_sum_is_right(comm, 3, 400));
    });
  }
}

TEST_CASE("device copies: groups against brute force") {
  if (!usable()) return;
  for (const int world_size : {1, 2, 3, 5}) {
    check_ranks(world_size, [](Communicator& control) {
      StagedCommunicator comm(make_device_copies(control));
      CHECK(zeroproof_test::groups_are_right(comm, 1));
    });
  }
}

TEST_CASE("device copies: long blocks, an empty one among them") {
  if (!usable()) return;
  check_ranks(3, [](Communicator& control) {
    StagedCommunicator comm(make_device_copies(control));
    const auto numbered = [](int rank) {
      return rank == 1 ? Bytes{} : device_test::numbered((1 << 20) + 1 + rank, rank);
    };
    Bytes got[3], mine = numbered(control.rank());
    Blocks recv;
    for (int rank = 0; rank < 3; ++rank) {
      got[rank].resize(numbered(rank).size());
      recv.push_back(std::as_writable_bytes(Span<unsigned char>(got[rank])));
    }
    comm.all_gather(std::as_bytes(Span<const unsigned char>(mine)), recv);
    for (int rank = 0; rank < 3; ++rank) CHECK(got[rank] == numbered(rank));
  });
}

TEST_CASE("device copies: buffers are used before and after a call without waiting") {
  if (!usable()) return;
  for (const int world_size : {1, 2, 3, 5}) {
    for (const std::int64_t num_bytes : {1, 4097, (1 << 20) + 1}) {
      check_ranks(world_size, [&](Communicator& control) {
        CHECK(gathers_are_right(control, false, num_bytes));
      });
    }
  }
}

TEST_CASE("device copies: sums on two otherwise unordered streams") {
  if (!usable()) return;
  for (const int world_size : {1, 2, 3}) {
    check_ranks(world_size, [](Communicator& control) {
      CHECK(sums_are_right(control, false, {3, 3}));
      CHECK(sums_are_right(control, true, {1001, 100003}));
    });
  }
}

TEST_CASE("device copies: all ranks and a group of them in turn, on two streams") {
  if (!usable()) return;
  for (const int world_size : {1, 2, 5}) {
    check_ranks(world_size, [](Communicator& control) {
      CHECK(groups_in_turn_are_right(control, true, 100001));
    });
  }
}

TEST_CASE("device copies: no host waits, and scratch is allocated once") {
  if (!usable()) return;
  check_ranks(3, [](Communicator& control) {
    const auto copies = make_device_copies(control);
    const DeviceBytes mine(96), all(3 * 96);
    const Blocks recv = blocks_of(all, 3, 96);
    const auto words = [&](std::int64_t count) {
      return on_device<std::uint64_t>(mine, 8 * count);
    };
    const bool is_root = control.rank() == 1;
    const auto own = static_cast<std::size_t>(control.rank());
    enqueue_fill(mine.data(), 1, 96);
    check_calls({.copies = 3}, [&] { copies->all_gather(on_device<std::byte>(mine, 96), recv); });
    check_calls({.copies = 2}, [&] { copies->all_gather(recv[own], recv); });
    check_calls({.copies = is_root ? 0 : 1},
                [&] { copies->broadcast(on_device<std::byte>(mine, 96), 1); });
    check_calls({}, [&] { copies->barrier(); });
    check_calls({.launches = 1, .copies = 3, .allocations = 1},
                [&] { copies->all_reduce(words(4), IntegerReduce::sum); });
    check_calls({.launches = 1, .copies = 3},
                [&] { copies->all_reduce(words(2), IntegerReduce::max); });
    check_calls({.launches = 1, .copies = 3, .allocations = 1},
                [&] { copies->all_reduce(words(12), IntegerReduce::sum); });
    check_calls({}, [&] { copies->all_reduce({}, IntegerReduce::sum); });
    const std::array<std::int64_t, 3> counts = {3, 0, 21};
    check_calls({.launches = is_root ? 0 : 1, .copies = is_root ? 0 : 3}, [&] {
      copies->native_reduce_scatter(on_device<float>(mine, 96), counts,
                                    on_device<float>(all, 4 * counts[own]));
    });
    check_calls({}, [&] { CHECK(copies->shared_window(8) == nullptr); });
    wait_for_stream();
  });
}

}  // namespace device_copies_test
