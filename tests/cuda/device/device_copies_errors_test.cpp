// Device copies fail in the same way as ranks that are threads: the same errors on the same ranks.
// Skipped without a device, except for the cases that need none.

#include <doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/hosted_communicator.hpp"
#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"
#include "cuda/comm/device_copies.hpp"
#include "tests/common/comm/thread_outcome.hpp"
#include "tests/cuda/device/copies_support.hpp"
#include "tests/cuda/expect_error.hpp"
#include "tests/cuda/optimizer/device_layouts.hpp"

namespace device_copies_errors_test {

using namespace zeroproof;
using namespace zeroproof::copies_test;
using cuda::make_device_copies;
using device_test::usable;
using tests::expect_error;
using zeroproof_test::Outcome;
using zeroproof_test::promptly;
using zeroproof_test::short_limit;

namespace {

/// Runs ranks of which some fail, and the remaining work of their streams.
Outcome run_on_devices(ThreadWorld& world, const std::function<void(Communicator& control)>& work) {
  Outcome outcome = zeroproof_test::run(world, work);
  cuda::device::wait_for_stream();
  return outcome;
}

/// Errors of ranks that make the same calls with host memory and with device memory.
void check_same_errors(
    int world_size, const std::string& begin,
    const std::function<void(Communicator& comm, Span<std::byte> memory)>& work) {
  CAPTURE(world_size);
  ThreadWorld hosts(world_size, short_limit), devices(world_size, short_limit);
  const Outcome host = zeroproof_test::run(hosts, [&](Communicator& comm) {
    comm.barrier();  // #1, as the creation of device copies is there
    std::vector<std::byte> memory(1024);
    work(comm, memory);
  });
  const Outcome device = run_on_devices(devices, [&](Communicator& control) {
    const DeviceBytes memory(1024);
    const auto copies = make_device_copies(control);
    work(*copies, on_device<std::byte>(memory, 1024));
  });
  CHECK(device.texts == host.texts);
  CHECK(device.codes == host.codes);
  CHECK(device.root_cause == host.root_cause);
  CHECK(device.root_cause.substr(0, begin.size()) == begin);
  CHECK(device.time < promptly);
}

}  // namespace

TEST_CASE("device copies: disagreements are the same errors as on the host") {
  if (!usable()) return;
  check_same_errors(
      3, "the ranks disagree about counts: in all_gather #2 rank 0 sends 4 bytes to rank 2",
      [](Communicator& comm, Span<std::byte> memory) {
        std::vector<Span<std::byte>> recv;
        for (std::size_t from = 0; from < 3; ++from)
          recv.push_back(memory.subspan(100 * from, comm.rank() == 2 && from == 0 ? 5 : 4));
        comm.all_gather(memory.subspan(500, 4), recv);
      });
  check_same_errors(3, "the ranks are not in the same collective: ranks 0 and 2 call barrier #2",
                    [](Communicator& comm, Span<std::byte> memory) {
                      if (comm.rank() != 1) return comm.barrier();
                      comm.broadcast(memory, 2);
                    });
  check_same_errors(2, "the ranks are not in the same collective: rank 0 calls all_reduce #2 (sum)",
                    [](Communicator& comm, Span<std::byte> memory) {
                      void* const data = memory.data();
                      const Span<std::uint64_t> words(static_cast<std::uint64_t*>(data), 5);
                      comm.all_reduce(words,
                                      comm.rank() == 0 ? IntegerReduce::sum : IntegerReduce::max);
                    });
  check_same_errors(3, "broadcast got root 3 (", [](Communicator& comm, Span<std::byte> memory) {
    comm.broadcast(memory, comm.rank() == 1 ? 3 : 0);
  });
  check_same_errors(2, "split got colour -1 (",
                    [](Communicator& comm, Span<std::byte>) { comm.split(comm.rank() - 1); });
}

TEST_CASE("device copies: absent, left and aborting ranks are the same errors as on the host") {
  if (!usable()) return;
  for (const bool on_host : {true, false}) {
    std::atomic<int> failed{0};
    ThreadWorld world(3, short_limit);
    const Outcome outcome = run_on_devices(world, [&](Communicator& control) {
      const auto copies = make_device_copies(control);
      const DeviceBytes memory(8);
      const auto begin = std::chrono::steady_clock::now();
      while (control.rank() == 2 && failed < 2 &&
             std::chrono::steady_clock::now() - begin < promptly)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      try {
        if (on_host) return control.barrier();
        copies->broadcast(on_device<std::byte>(memory, 8), 0);
      } catch (const Error&) {
        ++failed;
        throw;
      }
    });
    const std::string call = on_host ? "barrier #2" : "broadcast #2 from root 0";
    zeroproof_test::check_same_error(outcome, ErrorCode::timeout,
                                     "rank 2 did not arrive at " + call + " within 200 ms (");
  }
  check_same_errors(3, "rank 1 left without calling all_reduce #2 (sum)",
                    [](Communicator& comm, Span<std::byte> memory) {
                      void* const data = memory.data();
                      if (comm.rank() == 1) return;
                      comm.all_reduce({static_cast<std::uint64_t*>(data), 1}, IntegerReduce::sum);
                    });
  check_same_errors(3, "rank 0 ended: no space on the disk",
                    [](Communicator& comm, Span<std::byte>) {
                      if (comm.rank() == 0) return comm.abort("no space on the disk");
                      comm.barrier();
                    });
}

TEST_CASE("device copies: a failure on one rank ends the others for good") {
  if (!usable()) return;
  ThreadWorld world(3);
  const Outcome outcome = run_on_devices(world, [](Communicator& control) {
    const auto copies = make_device_copies(control);
    const DeviceBytes memory(64);
    const std::int64_t words =
        control.rank() == 1 ? std::int64_t{1} << 44 : 8;  // more than any device has
    const auto sum = [&] {
      copies->all_reduce(
          {on_device<std::uint64_t>(memory, 8).data(), static_cast<std::size_t>(words)},
          IntegerReduce::sum);
    };
    const std::string first = device_test::message_of(sum);
    const std::string again = device_test::message_of([&] { copies->barrier(); });
    const std::string refusal = "allocating " + std::to_string(3 * 8 * words) +
                                " bytes of device memory failed";  // of three ranks
    if (control.rank() == 1) CHECK(again.find("rank 1 ended: " + refusal) == 0);
    if (control.rank() != 1) CHECK(again.find("rank 1 ended: allocating ") == 0);
    if (control.rank() != 1) CHECK(first == again);
    if (control.rank() == 1) CHECK(first.find(refusal) == 0);
  });
  CHECK(outcome.root_cause.empty());
}

TEST_CASE("device copies: ranks have to share addresses") {
  const auto self = make_self_communicator();
  HostedCommunicator processes(*self, {"a"});  // without shared addresses
  expect_error(ErrorCode::unavailable, [&] { make_device_copies(processes); });
  CHECK(device_test::message_of([&] { make_device_copies(processes); }) ==
        "device copies do not work between the ranks of self (a copy only reaches device memory of "
        "its own "
        "process, so ranks must be threads of one process on one host); use --transport nccl, or "
        "--world threads:1, which is one host");
}

}  // namespace device_copies_errors_test
