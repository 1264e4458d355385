// Communicators that are built on others get the addresses of other ranks' data.

#include <doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/collective_call.hpp"
#include "common/comm/hosted_communicator.hpp"
#include "common/comm/recording.hpp"
#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"

using namespace zeroproof;

namespace {

/// Invalid addresses: they are never dereferenced.
const std::byte* place(int from, int to) {
  return reinterpret_cast<const std::byte*>((std::uintptr_t{1} << 40) +
                                            256 * static_cast<unsigned>(to)) +
         from;
}

void check_places(Communicator& comm) {
  CHECK(comm.shares_addresses());
  const int self = comm.rank();
  CollectiveCall call;
  call.collective = Collective::all_to_all;
  std::vector<Span<const std::byte>> send;
  for (int to = 0; to < comm.world_size(); ++to) {
    send.emplace_back(place(self, to), static_cast<std::size_t>(to) + 1);
    call.send_bytes.push_back(to + 1);
    call.recv_bytes.push_back(self + 1);
  }
  std::size_t taken = 0;
  comm.exchange_places(call, send, [&](std::size_t from, Span<const std::byte> block) {
    CHECK(from == taken++);
    CHECK(block.data() == place(static_cast<int>(from), self));
    CHECK(numel(block) == self + 1);
  });
  CHECK(taken == send.size());
}

std::string error_of(Communicator& comm, const CollectiveCall& call) {
  try {
    comm.exchange_places(call, std::vector<Span<const std::byte>>(1), [](std::size_t, auto) {});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("places: threads, their groups and recording communicators exchange addresses") {
  for (const int world_size : {1, 2, 3}) {
    CAPTURE(world_size);
    ThreadWorld world(world_size);
    run_ranks(world, [](Communicator& comm) {
      check_places(comm);
      check_places(*comm.split(comm.rank() % 2));
      RecordingCommunicator recording(comm);
      check_places(recording);
      CHECK(recording.traffic() == Traffic{});
    });
  }
  check_places(*make_self_communicator());
}

TEST_CASE("places: calls are compared, and counted, as in other collectives") {
  const auto self = make_self_communicator();
  self->barrier();
  CollectiveCall call;
  call.collective = Collective::broadcast;
  call.send_bytes = {4};
  call.recv_bytes = {5};
  CHECK(error_of(*self, call)
            .find("the ranks disagree about counts: in broadcast #2 from root 0 rank 0 sends 4") ==
        0);
  ThreadWorld world(1);
  CHECK(error_of(*world.communicator(0), call)
            .find("the ranks disagree about counts: in broadcast #1 from") == 0);
}

TEST_CASE("places: a communicator without shared addresses throws") {
  const auto self = make_self_communicator();
  HostedCommunicator processes(*self, {"a"});
  CHECK_FALSE(processes.shares_addresses());
  CHECK(error_of(processes, {}) ==
        "self cannot exchange addresses (addresses mean nothing in "
        "another process); use self or threads");
}
