#include "verification/bench/report.hpp"

#include <algorithm>

namespace zeroproof::verification::bench {

bool Report::ok() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.ok; });
}

long Report::switches() const {
  long sum = 0;
  for (const Row& row : rows) sum += row.switches;
  for (const ProductResult& one : product)
    sum += one.step.switches + one.twins.switches + one.addition.switches;
  return sum;
}

std::size_t Report::num_samples() const {
  std::size_t sum = 0;
  for (const Row& row : rows) sum += row.seconds.size();
  for (const ProductResult& one : product) sum += 3 * one.step.seconds.size();
  return sum;
}

bool Report::busy() const { return switches() * 2 > static_cast<long>(num_samples()); }

double Report::speed_up_without_zero() const {
  const Row* fused = find(rows, "fused step");
  const Row* seven = find(rows, "seven passes");
  if (fused == nullptr || seven == nullptr) return 0;
  // The first entry of zero_seconds belongs to the round that is not kept.
  std::vector<double> factors;
  for (std::size_t i = 0; i < seven->seconds.size(); ++i) {
    factors.push_back((seven->seconds[i] - step.zero_seconds[i + 1]) / fused->seconds[i]);
  }
  return median_of(factors);
}

}  // namespace zeroproof::verification::bench
