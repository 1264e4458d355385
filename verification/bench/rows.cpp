#include "verification/bench/rows.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "common/base/philox.hpp"

namespace zeroproof::verification::bench {

double Row::best() const { return seconds.empty() ? 0 : std::ranges::min(seconds); }

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<std::size_t> shuffled(std::size_t count, std::uint32_t round) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const Philox random(1, 5, round);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i, i)]);
  return order;
}

void measure(std::vector<Row>& rows, int rounds) {
  for (int round = 0; round <= rounds; ++round) {
    for (const std::size_t i : shuffled(rows.size(), round)) {
      Row& row = rows[i];
      rusage before{}, after{};
      ::getrusage(RUSAGE_SELF, &before);
      const double seconds = row.sample();
      ::getrusage(RUSAGE_SELF, &after);
      if (round == 0) continue;
      row.seconds.push_back(seconds);
      row.switches += after.ru_nivcsw - before.ru_nivcsw;
      row.page_faults.push_back(after.ru_minflt - before.ru_minflt);
    }
  }
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + values.size() / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::vector<double> quotients(const std::vector<double>& above, const std::vector<double>& below,
                              double factor) {
  std::vector<double> values;
  for (std::size_t i = 0; i < above.size(); ++i) values.push_back(factor * above[i] / below[i]);
  return values;
}

const Row* find(const std::vector<Row>& rows, const std::string& name) {
  const auto row = std::ranges::find(rows, name, &Row::name);
  return row == rows.end() ? nullptr : &*row;
}

const Row* best_limit(const std::vector<Row>& rows, const std::string& shape) {
  const Row* best = nullptr;
  for (const Row& row : rows) {
    if (row.shape == shape && (best == nullptr || row.best() < best->best())) best = &row;
  }
  return best;
}

Ratio ratio_to_limit(const std::vector<Row>& rows, const Row& row) {
  double limit_seconds = 0;
  std::vector<double> limit_of_round(row.seconds.size(), 0.0);
  for (const std::string& shape : row.limits) {
    const Row* limit = best_limit(rows, shape);
    if (limit == nullptr) return {};
    limit_seconds += limit->best();
    for (std::size_t i = 0; i < limit_of_round.size(); ++i) limit_of_round[i] += limit->seconds[i];
  }
  if (limit_seconds <= 0) return {};
  return {limit_seconds / row.best(), median_of(quotients(limit_of_round, row.seconds)),
          row.num_bytes * row.numel / limit_seconds / 1e9};
}

void Group::judge(const std::string& name, const std::string& over, const std::string& under,
                  double goal, bool at_least) {
  const Row *above = find(rows, over), *below = find(rows, under);
  if (above == nullptr || below == nullptr) return;
  const double elements = static_cast<double>(below->numel) / above->numel;
  figures.push_back({name, median_of(quotients(above->seconds, below->seconds, elements)), goal,
                     at_least, "", above->best() / below->best() * elements});
}

void Group::judge_limit(const std::string& name, const std::string& row, double goal) {
  const Row* const found = find(rows, row);
  if (found == nullptr) return;
  const Ratio ratio = ratio_to_limit(rows, *found);
  const bool speed = goal <= 1;
  if (ratio.best == 0) return;
  figures.push_back({name, speed ? ratio.per_round : 1 / ratio.per_round, goal, speed, "",
                     speed ? ratio.best : 1 / ratio.best});
}

}  // namespace zeroproof::verification::bench
