#pragma once
// One line of the table, before and after it was measured.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace zeroproof::verification::bench {

struct Row {
  std::string name;
  double num_bytes = 0;                ///< necessary traffic per element: each read once, each write once
  std::int64_t numel = 0;              ///< elements one call of body works on
  std::function<void()> body;          ///< timed
  std::function<void()> prepare = {};  ///< not timed, before every body
  std::string shape = {};  ///< set for limits: rows of one shape compete, the fastest is the limit
  std::vector<std::string> limits = {};  ///< shapes of the passes a twin consists of; their times add up
  double goal = 0;                       ///< wanted fraction of the limit, 0 for none

  std::vector<double> seconds = {};    ///< one sample per round
  long switches = 0;                   ///< involuntary context switches during the samples
  std::vector<long> page_faults = {};  ///< of this process in each sample, without reading from disk

  double best() const;
  double median() const;
};

/// "fast is that many times faster than slow", both by nanoseconds per element.
struct Comparison {
  std::string name;
  std::string fast, slow;  ///< names of rows
  double goal;
  bool at_least;  ///< false: the factor is to stay below the goal
};

/// One claim about bits, judged after the last round.
struct Check {
  std::string name;
  bool ok;
  std::string where = {};  ///< the row, if several have a check of this name
};

double median_of(std::vector<double> values);

/// Smallest, median and largest of some values; zeros if there is none.
struct Spread {
  double least = 0;
  double median = 0;
  double most = 0;
};
Spread spread_of(const std::vector<double>& values);

/// Null if there is no such row.
const Row* find(const std::vector<Row>& rows, const std::string& name);

/// The fastest row of a shape; null if the shape is unknown.
const Row* best_limit(const std::vector<Row>& rows, const std::string& shape);

/// How a row stands to its limits. 0 if it has none.
struct Ratio {
  double best = 0;       ///< fastest sample of the limits / fastest sample of the row
  double per_round = 0;  ///< median over rounds of the same, from samples of one round
  double limit_gbs = 0;  ///< the row's bytes in the fastest time of its limits
};
Ratio ratio_to_limit(const std::vector<Row>& rows, const Row& row);

/// slow / fast per element: fastest samples, and the median over rounds.
Ratio ratio_of(const std::vector<Row>& rows, const Comparison& comparison);

/// What slow / fast would be if both ran at their limits, median over rounds; 0 if one has none.
double factor_at_limits(const std::vector<Row>& rows, const Comparison& comparison);

}  // namespace zeroproof::verification::bench
