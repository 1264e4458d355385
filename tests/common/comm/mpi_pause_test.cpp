#include "common/comm/mpi_pause.hpp"

#include <doctest.h>

using std::chrono::microseconds;
using zeroproof::Pause;

TEST_CASE("who waits looks a hundred times, then sleeps ever longer, but never long") {
  Pause pause;
  for (int look = 1; look < 100; ++look) CHECK(pause.next() == microseconds(0));
  microseconds before{0};
  microseconds waited{0};
  for (int sleep = 0; sleep < 60; ++sleep) {
    const microseconds length = pause.next();
    CHECK(length >= before);
    CHECK(length <= Pause::longest);
    if (sleep > 0) CHECK(length <= microseconds(20) + waited / 8);  // late by little of what was waited for
    before = length;
    waited += length;
  }
  CHECK(before == Pause::longest);
  pause.reset();
  CHECK(pause.next() == microseconds(0));
}

TEST_CASE("where blocks move more looks come before the first sleep") {
  Pause pause(1000);
  for (int look = 1; look < 1000; ++look) CHECK(pause.next() == microseconds(0));
  CHECK(pause.next() == microseconds(20));
  pause.reset();
  for (int look = 1; look < 1000; ++look) CHECK(pause.next() == microseconds(0));
}
