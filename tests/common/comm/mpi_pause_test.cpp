#include "common/comm/mpi/mpi_pause.hpp"

#include <doctest.h>

using std::chrono::microseconds;
using zeroproof::Pause;

TEST_CASE("who waits looks a hundred times, then sleeps ever longer, but never long") {
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
      CHECK(length <= microseconds(20) + waited / 8);  // late by little of what was waited for
    before = length;
    waited += length;
  }
  CHECK(before == Pause::longest);
  pause.reset();
  CHECK(pause.next(at) == microseconds(0));
}

TEST_CASE("where blocks move more looks come before the first sleep") {
  Pause pause(1000);
  const Pause::Clock::time_point at;
  for (int look = 1; look < 1000; ++look) CHECK(pause.next(at) == microseconds(0));
  CHECK(pause.next(at) == microseconds(20));
  pause.reset();
  for (int look = 1; look < 1000; ++look) CHECK(pause.next(at) == microseconds(0));
}

TEST_CASE("on a busy machine the looks are over after the time they would take on an idle one") {
  Pause pause;
  Pause::Clock::time_point at;
  CHECK(pause.next(at) == microseconds(0));
  CHECK(pause.next(at + 100 * Pause::longest_look) == microseconds(0));
  at += 100 * Pause::longest_look + microseconds(1);
  CHECK(pause.next(at) == microseconds(20));
  CHECK(pause.next(at) > microseconds(20));
  pause.reset();
  CHECK(pause.next(at) == microseconds(0));
  CHECK(pause.next(at + microseconds(1)) == microseconds(0));
}
