#include "verification/bench/device/device_rows.hpp"

#include <cstdio>
#include <utility>

#include "cuda/device/runtime/timed_event.hpp"
#include "verification/bench/measure/rounds.hpp"

namespace zeroproof::verification::bench {

void Group::judge_row(const std::string& name, const std::string& row, double goal) {
  const Row* const found = find(rows, row);
  if (found == nullptr) return;
  const double ratio = ratio_to_limit(rows, *found).per_round;
  const bool at_least = goal <= 1;
  figures.push_back({name, at_least || ratio == 0 ? ratio : 1 / ratio, goal, at_least});
}

void Group::judge_ratio(const std::string& name, const std::string& over, const std::string& under,
                        double goal, bool at_least) {
  if (find(rows, over) == nullptr || find(rows, under) == nullptr) return;
  figures.push_back({name, ratio_of(rows, {name, under, over, goal, at_least}).per_round, goal, at_least});
}

void DeviceRows::add(Row row, std::function<double()> sample) {
  rows.push_back(std::move(row));
  samples_.push_back(std::move(sample));
}

void DeviceRows::measure(int rounds) {
  for (int round = 0; round <= rounds; ++round) {
    for (const std::size_t i : shuffled(rows.size(), static_cast<std::uint32_t>(round))) {
      const double seconds = samples_[i]();
      if (round > 0) rows[i].seconds.push_back(seconds);
    }
  }
}

double device_seconds(const std::function<void()>& body) {
  cuda::device::TimedEvent begin, end;
  begin.record();
  body();
  end.record();
  return seconds_between(begin, end);
}

void say(const std::string& what) { std::fprintf(stderr, "zeroproof-bench-device: %s\n", what.c_str()); }

}  // namespace zeroproof::verification::bench
