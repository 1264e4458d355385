#include "verification/bench/measure/row.hpp"

#include <algorithm>

namespace zeroproof::verification::bench {

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Spread spread_of(const std::vector<double>& values) {
  if (values.empty()) return {};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {*least, median_of(values), *most};
}

double Row::best() const { return seconds.empty() ? 0 : *std::min_element(seconds.begin(), seconds.end()); }
double Row::median() const { return median_of(seconds); }

const Row* find(const std::vector<Row>& rows, const std::string& name) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
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
  Ratio ratio;
  double limit_seconds = 0;
  std::vector<double> limit_of_round(row.seconds.size(), 0.0);
  for (const std::string& shape : row.limits) {
    const Row* limit = best_limit(rows, shape);
    if (limit == nullptr) return ratio;
    limit_seconds += limit->best();
    for (std::size_t i = 0; i < limit_of_round.size(); ++i) limit_of_round[i] += limit->seconds[i];
  }
  if (limit_seconds <= 0) return ratio;
  for (std::size_t i = 0; i < limit_of_round.size(); ++i) limit_of_round[i] /= row.seconds[i];
  ratio.best = limit_seconds / row.best();
  ratio.per_round = median_of(limit_of_round);
  ratio.limit_gbs = row.num_bytes * static_cast<double>(row.numel) / limit_seconds / 1e9;
  return ratio;
}

Ratio ratio_of(const std::vector<Row>& rows, const Comparison& comparison) {
  const Row* fast = find(rows, comparison.fast);
  const Row* slow = find(rows, comparison.slow);
  Ratio ratio;
  if (fast == nullptr || slow == nullptr) return ratio;
  const double elements = static_cast<double>(fast->numel) / static_cast<double>(slow->numel);
  std::vector<double> factors;
  for (std::size_t i = 0; i < fast->seconds.size(); ++i) {
    factors.push_back(slow->seconds[i] / fast->seconds[i] * elements);
  }
  ratio.best = slow->best() / fast->best() * elements;
  ratio.per_round = median_of(factors);
  return ratio;
}

double factor_at_limits(const std::vector<Row>& rows, const Comparison& comparison) {
  const Row* fast = find(rows, comparison.fast);
  const Row* slow = find(rows, comparison.slow);
  if (fast == nullptr || slow == nullptr) return 0;
  const double fast_ratio = ratio_to_limit(rows, *fast).per_round;
  if (fast_ratio <= 0) return 0;
  return ratio_of(rows, comparison).per_round * ratio_to_limit(rows, *slow).per_round / fast_ratio;
}

}  // namespace zeroproof::verification::bench
