// Collectives of NCCL communicators on the simulated device, with the fake NCCL, against brute
// force and host ranks.

#include <doctest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "common/comm/recording.hpp"
#include "tests/common/comm/comm_group_cases.hpp"
#include "tests/cuda/comm/nccl/nccl_support.hpp"
#include "tests/cuda/expect_error.hpp"

namespace nccl_collectives_test {

using namespace zeroproof;
using namespace zeroproof::copies_test;
using namespace zeroproof::nccl_test;
using cuda::make_nccl_communicator;
using cuda::wait_watched;
using cuda::WatchedCommunicator;
using cuda::device::current_stream;
using cuda::device::enqueue_fill;
using cuda::device::enqueue_to_host;

namespace {

constexpr int worlds[] = {1, 2, 3, 4, 5};

const Traffic& traffic_of(Communicator& comm) {
  return dynamic_cast<WatchedCommunicator&>(comm).traffic();
}

/// Groups have no bitwise_or here, so zeroproof_test::groups_are_right cannot be used.
bool groups_are_right(Communicator& comm) {
  bool right = true;
  for (int colouring = 0; colouring < zeroproof_test::num_colourings; ++colouring) {
    const auto members = zeroproof_test::members_of(colouring, comm.rank(), comm.world_size());
    const auto group = comm.split(zeroproof_test::colour_of(colouring, comm.rank()));
    right &= group->world_size() == static_cast<int>(members.size());
    right &= members[group->rank()] == comm.rank();
    right &= zeroproof_test::all_collectives_are_right(*group, colouring);
    right &= zeroproof_test::all_collectives_are_right(comm, colouring);
    const auto inner = group->split(group->rank() % 2);
    right &= zeroproof_test::all_collectives_are_right(*inner, colouring);
  }
  return right;
}

/// Equal parts in one block of memory, with the own one in place or not.
bool gather_is_right(Communicator& comm, std::int64_t num_bytes, bool in_place, std::int64_t gap) {
  const int ranks = comm.world_size();
  const DeviceBytes mine(num_bytes + 1), all(ranks * (num_bytes + gap));
  std::vector<Span<std::byte>> recv;
  Bytes expected;
  for (int rank = 0; rank < ranks; ++rank) {
    recv.push_back(on_device<std::byte>(all, num_bytes, rank * (num_bytes + gap)));
    expected.insert(expected.end(), static_cast<std::size_t>(num_bytes), value(1, rank));
    expected.insert(expected.end(), static_cast<std::size_t>(gap), 0xEE);
  }
  enqueue_fill(all.data(), 0xEE, ranks * (num_bytes + gap));
  const Span<std::byte> own =
      in_place ? recv[comm.rank()] : on_device<std::byte>(mine, num_bytes, 1);
  enqueue_fill(own.data(), value(1, comm.rank()), num_bytes);
  comm.all_gather(own, recv);
  return all.bytes() == expected;
}

}  // namespace

TEST_CASE("NCCL communicator: collectives against brute force") {
  for (const int world_size : worlds) {
    check_ranks(world_size, [](Communicator& control) {
      StagedCommunicator comm(make_nccl_communicator(control, fake()));
      CHECK(comm.name() == "nccl:" + std::to_string(control.world_size()));
      for (std::int64_t round = 0; round < 8; ++round) {
        CHECK(zeroproof_test::all_collectives_are_right(comm, round));
        CHECK(zeroproof_test::all_reduce_is_right(comm, round, IntegerReduce::max));
        CHECK(zeroproof_test::float_sum_is_right(comm, round));
      }
      CHECK(zeroproof_test::float_sum_is_right(comm, 3, 400));
    });
  }
}

TEST_CASE("NCCL communicator: groups against brute force") {
  for (const int world_size : worlds) {
    check_ranks(world_size, [](Communicator& control) {
      StagedCommunicator comm(make_nccl_communicator(control, fake()));
      CHECK(groups_are_right(comm));
    });
  }
}

TEST_CASE("NCCL communicator: equal parts, in one block of memory or not, in place or not") {
  for (const int world_size : worlds) {
    check_ranks(world_size, [](Communicator& control) {
      const auto comm = make_nccl_communicator(control, fake());
      for (const std::int64_t num_bytes : {1, 7, 4097}) {
        for (const bool in_place : {false, true}) {
          CHECK(gather_is_right(*comm, num_bytes, in_place, 0));
          CHECK(gather_is_right(*comm, num_bytes, in_place, 3));
          CHECK(gather_is_right(*comm, num_bytes, in_place, control.rank() == 0 ? 0 : 3));
        }
      }
    });
  }
}

TEST_CASE(
    "NCCL communicator: equal counts of floats are one reduction, also where some have none") {
  check_ranks(3, [](Communicator& control) {
    const auto comm = make_nccl_communicator(control, fake());
    for (const std::vector<std::int64_t>& counts :
         {std::vector<std::int64_t>{5, 5, 5}, {5, 0, 2}, {0, 0, 0}}) {
      const std::int64_t own = counts[control.rank()];
      const std::int64_t total = counts[0] + counts[1] + counts[2];
      const DeviceBytes send(64), recv(64);
      const std::vector<float> terms(16, 1.0F + static_cast<float>(control.rank()));
      device_test::put(send.data(), terms.data(), 64);
      enqueue_fill(recv.data(), 0, 64);
      comm->native_reduce_scatter(on_device<float>(send, 4 * total), counts,
                                  on_device<float>(recv, 4 * own));
      std::vector<float> sums(16), expected(16, 0.0F);
      device_test::get(sums.data(), recv.data(), 64);
      for (std::int64_t i = 0; i < own; ++i) expected[i] = 6;
      CHECK(sums == expected);
    }
  });
}

TEST_CASE("NCCL communicator: traffic is counted as on the host") {
  for (const int world_size : worlds) {
    check_ranks(world_size, [](Communicator& control) {
      RecordingCommunicator hosts(control);
      auto comm_groups = make_nccl_communicator(control, fake());
      Communicator& nccl = *comm_groups;
      StagedCommunicator comm(std::move(comm_groups));
      for (std::int64_t round = 0; round < 6; ++round) {
        for (Communicator* const one :
             {static_cast<Communicator*>(&hosts), static_cast<Communicator*>(&comm)}) {
          CHECK(zeroproof_test::all_collectives_are_right(*one, round));
          CHECK(zeroproof_test::float_sum_is_right(*one, round));
        }
      }
      Traffic counted = hosts.traffic();
      counted.of_kind[static_cast<std::size_t>(Collective::barrier)] =
          {};  // one of hosts in either case
      CHECK(traffic_of(nccl) == counted);
    });
  }
}

/// Each rank writes directly before and after a gather, and reads directly after it. Rank 1 makes
/// its calls when those of rank 0 have all returned.
TEST_CASE(
    "NCCL communicator: a call waits for no rank or device, and its buffers are usable "
    "immediately") {
  const UsePlan plan("patience=0");
  for (const int world_size : {2, 3}) {
    std::atomic<bool> returned{false};
    const auto gather = [&](Communicator& control) {
      constexpr int rounds = 3, size = 5;
      const int ranks = control.world_size();
      const auto comm = make_nccl_communicator(control, fake());
      const DeviceBytes source(size), received(ranks * size);
      const PinnedBytes seen(rounds * ranks * size);
      Bytes expected;
      returned = false;
      control.barrier();
      while (control.rank() == 1 && !returned) std::this_thread::yield();
      for (int round = 0; round < rounds; ++round) {
        enqueue_fill(source.data(), value(round, control.rank()), size);
        comm->all_gather(on_device<std::byte>(source, size), blocks_of(received, ranks, size));
        enqueue_fill(source.data(), 0xEE, size);
        enqueue_to_host(seen.data() + round * ranks * size, received.data(), ranks * size);
        for (int rank = 0; rank < ranks; ++rank)
          expected.insert(expected.end(), size, value(round, rank));
      }
      if (control.rank() == 0) returned = true;
      wait_watched({comm.get()});
      CHECK(seen.bytes() == expected);
      control.barrier();  // no rank waits for its stream while another one has missing work
    };
    check_ranks(world_size, gather);
  }
}

/// The second stream is waited for first: of the first one it needs the work that the communicator
/// orders.
TEST_CASE("NCCL communicator: calls in two streams follow each other") {
  check_ranks(3, [](Communicator& control) {
    const DeviceBytes words(24);
    const PinnedBytes seen(24);
    Stream first, second;
    const auto comm = make_nccl_communicator(control, fake());
    const auto sum = [&] {
      comm->all_reduce(on_device<std::uint64_t>(words, 24), IntegerReduce::sum);
    };
    on(first, [&] {
      enqueue_fill(words.data(), 1, 24);
      sum();
    });
    on(second, [&] {
      sum();
      enqueue_to_host(seen.data(), words.data(), 24);
    });
    wait_in_turn(control, false, {&second, &first});
    CHECK(seen.bytes() == Bytes(24, 9));
  });
}

TEST_CASE("NCCL communicator: the destructor waits for all calls") {
  check_ranks(3, [](Communicator& control) {
    const DeviceBytes words(24);
    Stream stream;
    enqueue_fill(words.data(), 1, 24);
    cuda::device::wait_for_stream();
    on(stream, [&] {
      const auto comm = make_nccl_communicator(control, fake());
      comm->all_reduce(on_device<std::uint64_t>(words, 24), IntegerReduce::sum);
    });
    CHECK(words.bytes() == Bytes(24, 3));
  });
}

TEST_CASE("NCCL communicator: unsupported calls are refused") {
  check_ranks(2, [](Communicator& control) {
    const auto comm = make_nccl_communicator(control, fake());
    const DeviceBytes words(8);
    tests::expect_error(ErrorCode::unavailable, [&] {
      comm->all_reduce(on_device<std::uint64_t>(words, 8), IntegerReduce::bitwise_or);
    });
    CHECK(comm->shared_window(8) == nullptr);
    CHECK_FALSE(comm->shares_addresses());
    comm->barrier();
    comm->broadcast(on_device<std::byte>(words, 8), 1);  // the communicator still works
  });
}

}  // namespace nccl_collectives_test
