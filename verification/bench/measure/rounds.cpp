#include "verification/bench/measure/rounds.hpp"

#include <sys/resource.h>

#include <chrono>
#include <numeric>
#include <utility>

#include "common/base/philox.hpp"

namespace zeroproof::verification::bench {

Disturbances disturbances() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return {usage.ru_nivcsw, usage.ru_minflt};
}

std::vector<std::size_t> shuffled(std::size_t count, std::uint32_t round) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const Philox random(1, 5, round);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i, i)]);
  return order;
}

namespace {

void sample(Row& row, bool keep) {
  if (row.prepare) row.prepare();
  const Disturbances before = disturbances();
  const auto start = std::chrono::steady_clock::now();
  row.body();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (!keep) return;
  const Disturbances after = disturbances();
  row.seconds.push_back(elapsed.count());
  row.switches += after.switches - before.switches;
  row.page_faults.push_back(after.page_faults - before.page_faults);
}

}  // namespace

void measure(std::vector<Row>& rows, int rounds) {
  for (int round = 0; round <= rounds; ++round) {
    for (const std::size_t i : shuffled(rows.size(), static_cast<std::uint32_t>(round)))
      sample(rows[i], round > 0);
  }
}

}  // namespace zeroproof::verification::bench
