#include "common/comm/mpi/mpi_pause.hpp"

#include <doctest.h>

using std::chrono::microseconds;
using zeroproof::Pause;

TEST_CASE("MpiPause: polls a hundred times, then sleeps ever longer, up to a limit") {
  Pause pause;
  const Pause::Clock::time_point at;
  for (int look = 1; look < 100; ++look) CHECK(pause.next(at) == microseconds(0));
  microseconds before{0};
  microseconds waited{0};
  for (int sleep = 0; sleep < 60; ++sleep) {
    const microseconds length = pause.next(at);
    CHECK(length >= before);
    CHECK(length <= Pause::longest);
    if (sleep > 0)
      CHECK(length <= microseconds(20) + waited / 8);  // late by a small part of the wait
    before = length;
    waited += length;
  }
  CHECK(before == Pause::longest);
  pause.reset();
  CHECK(pause.next(at) == microseconds(0));
}

TEST_CASE("MpiPause: polls more before the first sleep while blocks move") {
  Pause pause(1000);
  const Pause::Clock::time_point at;
  for (int look = 1; look < 1000; ++look) CHECK(pause.next(at) == microseconds(0));
  CHECK(pause.next(at) == microseconds(20));
  pause.reset();
  for (int look = 1; look < 1000; ++look) CHECK(pause.next(at) == microseconds(0));
}

TEST_CASE("MpiPause: on a busy machine polling ends after its duration on an idle one") {
  Pause pause;
  Pause::Clock::time_point at;
  CHECK(pause.next(at) == microseconds(0));
  CHECK(pause.next(at + 100 * Pause::longest_poll) == microseconds(0));
  at += 100 * Pause::longest_poll + microseconds(1);
  CHECK(pause.next(at) == microseconds(20));
  CHECK(pause.next(at) > microseconds(20));
  pause.reset();
  CHECK(pause.next(at) == microseconds(0));
  CHECK(pause.next(at + microseconds(1)) == microseconds(0));
}
