#include "verification/bench/measure/rounds.hpp"

#include <chrono>
#include <thread>

#include "verification/bench/ranks/suite.hpp"

namespace zeroproof::verification::bench {
namespace {

/// Nanoseconds of the clock that all processes of a machine share.
std::uint64_t now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

std::uint64_t latest(Communicator& comm, std::uint64_t time) {
  comm.all_reduce({&time, 1}, IntegerReduce::max);
  return time;
}

void sample(Row& row, Communicator& comm, bool keep) {
  constexpr std::uint64_t time_to_hear = 300'000;  // so that all know the moment before it comes
  const Disturbances before = disturbances();
  const std::uint64_t start = latest(comm, now()) + time_to_hear;
  while (now() < start) std::this_thread::yield();
  row.body();
  const std::uint64_t end = latest(comm, now());
  if (!keep) return;
  const Disturbances after = disturbances();
  row.seconds.push_back(static_cast<double>(end - start) * 1e-9);
  row.switches += after.switches - before.switches;
  row.page_faults.push_back(after.page_faults - before.page_faults);
}

}  // namespace

void measure_ranks(std::vector<Row>& rows, int rounds, Communicator& comm) {
  for (int round = 0; round <= rounds; ++round) {
    for (const std::size_t i : shuffled(rows.size(), static_cast<std::uint32_t>(round)))
      sample(rows[i], comm, round > 0);
  }
}

}  // namespace zeroproof::verification::bench
