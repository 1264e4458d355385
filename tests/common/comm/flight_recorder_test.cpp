// The last collectives of a process, read by another process.

#include "common/comm/flight_recorder.hpp"

#include <doctest.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "common/comm/threads.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace zeroproof;

namespace {

CollectiveCall call_of(std::int64_t sequence, std::int64_t num_bytes = 10) {
  CollectiveCall call;
  call.collective = Collective::all_gather;
  call.sequence = sequence;
  call.send_bytes = {num_bytes, 0};
  call.recv_bytes = {num_bytes, 1};
  return call;
}

}  // namespace

TEST_CASE("flight recorder: the last 64 calls, oldest first, with their state") {
  const tests::TemporaryFolder folder;
  const std::string file = folder.file("flight.0");
  FlightRecorder& recorder = FlightRecorder::of_process();
  CHECK_FALSE(read_flight(file).has_value());
  REQUIRE(recorder.write_to(file));
  const Flight empty = read_flight(file).value();
  CHECK(empty.pid == ::getpid());
  CHECK(empty.num_calls == 0);
  CHECK(empty.entries.empty());
  CHECK(flight_text(3, empty).find("rank 3 (process " + std::to_string(::getpid()) +
                                   "): no collective") == 0);

  recorder.set_place("step 7 of a case");
  for (int i = 1; i <= 100; ++i) recorder.end(recorder.begin(call_of(i), 2));
  recorder.move(recorder.begin(call_of(101, 20), 2));
  const std::int64_t failing = recorder.begin(call_of(5), 3);
  const Flight flight = read_flight(file).value();
  CHECK(flight.num_calls == 102);
  CHECK(flight.place == "step 7 of a case");
  REQUIRE(flight.entries.size() == 64);
  CHECK(flight.entries.front().sequence == 39);
  CHECK(flight.entries[62].sequence == 101);
  CHECK(flight.entries[62].state == FlightEntry::State::moving);
  CHECK(flight.entries[62].num_bytes == 41);
  CHECK(flight.entries.back().channel == 3);
  CHECK(flight.entries.back().state == FlightEntry::State::waiting);
  CHECK(flight.moved_ns <= flight.now_ns);
  CHECK(flight.moved_ns >= flight.entries.back().begun_ns);

  const std::string text = flight_text(1, flight);
  CHECK(text.find("at step 7 of a case: 102 collectives, the last 64") != std::string::npos);
  CHECK(text.find("all_gather #39 to #100 of communicator 2, 21 bytes each, done\n") !=
        std::string::npos);
  CHECK(text.find("all_gather #101 of communicator 2, 41 bytes, moves data, since ") !=
        std::string::npos);
  CHECK(text.find("all_gather #5 of communicator 3, 21 bytes, waits for other ranks, since ") !=
        std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);
  recorder.fail(failing);
  CHECK(flight_text(1, read_flight(file).value()).find("bytes, failed, since ") !=
        std::string::npos);
}

TEST_CASE("flight recorder: other files are rejected, and a long place is truncated") {
  const tests::TemporaryFolder folder;
  const std::string file = folder.file("flight.0");
  std::ofstream(file) << std::string(20'000, 'x');
  CHECK_FALSE(read_flight(file).has_value());
  FlightRecorder& recorder = FlightRecorder::of_process();
  REQUIRE(recorder.write_to(folder.file("flight.1")));
  recorder.set_place(std::string(1000, 'p'));
  CHECK(read_flight(folder.file("flight.1"))->place == std::string(239, 'p'));
  recorder.set_place("x");
  CHECK(read_flight(folder.file("flight.1"))->place == "x");
  CHECK_FALSE(recorder.write_to(folder.file("none/flight")));
}

TEST_CASE(
    "flight recorder: ranks that are threads have one recorder each, for all their worlds and "
    "groups") {
  constexpr int ranks = 3;
  const auto recorders = std::make_shared<FlightRecorders>(ranks);
  ThreadWorld first(ranks, std::chrono::milliseconds(60'000), recorders);
  ThreadWorld second(ranks, std::chrono::milliseconds(300), recorders);
  std::string error;
  try {
    run_ranks(second, [&](Communicator& self) {
      const int rank = self.rank();
      const auto other = first.communicator(rank);
      recorders->ranks[rank].set_place("step " + std::to_string(rank));
      std::uint64_t sum = 1;
      for (int i = 0; i < 70; ++i) other->all_reduce({&sum, 1}, IntegerReduce::max);
      self.split(rank % 2)->barrier();
      if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      self.barrier();
    });
  } catch (const Error& caught) {
    error = caught.what();
  }
  CHECK(error.find("rank 2 did not arrive at barrier") != std::string::npos);
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    const Flight flight = recorders->ranks[rank].read();
    CHECK(flight.place == "step " + std::to_string(rank));
    REQUIRE(flight.entries.size() == FlightRecorder::num_kept);
    const FlightEntry& oldest = flight.entries.front();
    CHECK(oldest.collective == Collective::all_reduce);
    CHECK(oldest.channel == 0);
    CHECK(oldest.state == FlightEntry::State::done);
    const FlightEntry& last = flight.entries.back();
    CHECK(last.collective == Collective::barrier);
    // The world had already failed when the late rank arrived: its last call is that of its group.
    CHECK((last.state == FlightEntry::State::failed) == (rank != 2));
    CHECK((last.channel == 1) == (rank != 2));
    CHECK(flight.num_calls == (rank != 2 ? 74 : 73));
  }
  CHECK(flights_text({{1, recorders->ranks[1].read()}}).find("rank 1 (process ") == 0);
}
