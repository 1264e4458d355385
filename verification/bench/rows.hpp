#pragma once
// The measuring loop, and the figures computed from its samples.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace zeroproof::verification::bench {

struct Row {
  std::string name;
  double num_bytes = 0;    ///< necessary traffic per element: each read once, each write once
  std::int64_t numel = 0;  ///< elements of one sample
  std::function<double()> sample;  ///< seconds of one call, such as timed(body)
  std::vector<std::string> limits =
      {};                  ///< shapes of the passes it consists of; their times add up
  std::string shape = {};  ///< set for limits: rows of one shape compete, the fastest is the limit
  double operations = 0;   ///< floating-point operations of one sample; 0: not counted

  std::vector<double> seconds = {};  ///< one sample per round
  long switches = 0;                 ///< involuntary context switches during the samples
  std::vector<long> page_faults =
      {};  ///< of this process in each sample, without reading from disk

  double best() const;
};

/// Measures the body with the clock of the host.
double seconds_of(const std::function<void()>& body);
inline std::function<double()> timed(std::function<void()> body) {
  return [body = std::move(body)] { return seconds_of(body); };
}

/// Samples every row once per round, in another order each round: disturbances by the machine, and
/// data that one row leaves in the caches for the next, affect all rows equally. One more round
/// before them is dropped. With ranks, every rank calls this with the same rows.
void measure(std::vector<Row>& rows, int rounds);

/// 0 .. count - 1 in the order of a round; the same in every process.
std::vector<std::size_t> shuffled(std::size_t count, std::uint32_t round);

double median_of(std::vector<double> values);
/// factor * above[i] / below[i].
std::vector<double> quotients(const std::vector<double>& above, const std::vector<double>& below,
                              double factor = 1);

/// Null for an unknown name.
const Row* find(const std::vector<Row>& rows, const std::string& name);
/// The fastest row of a shape; null if the shape is unknown.
const Row* best_limit(const std::vector<Row>& rows, const std::string& shape);

/// Time of the limits of a row / time of the row; zeros without limits.
struct Ratio {
  double best = 0;       ///< of the fastest samples
  double per_round = 0;  ///< median over rounds
  double limit_gbs = 0;  ///< the row's bytes in the fastest time of its limits
};
Ratio ratio_to_limit(const std::vector<Row>& rows, const Row& row);

/// One judged number, the median over rounds.
struct Figure {
  std::string name;
  double value = 0;
  double goal = 0;  ///< 0: none
  bool at_least = true;
  std::string unit = {};  ///< "" for a ratio
  double best = 0;        ///< the ratio of the fastest samples; 0: not taken

  bool met() const { return at_least ? value >= goal : value <= goal; }
};

/// Rows of one call of measure(), and their figures.
struct Group {
  std::string title = {};
  std::vector<Row> rows = {};
  std::vector<Figure> figures = {};
  std::string missing = {};  ///< the reason for missing rows

  /// Seconds per element of the row `over` / those of the row `under`. No figure if one of them is missing.
  void judge(const std::string& name, const std::string& over, const std::string& under,
             double goal = 0, bool at_least = true);
  /// A goal up to 1: fraction of its limits' speed that the row reaches, at least. Above 1: of their time, at most.
  void judge_limit(const std::string& name, const std::string& row, double goal);
};

/// One claim about bits, judged after the last round.
struct Check {
  std::string name;
  bool ok;
  std::string where = {};  ///< the row, if several have a check of this name
};

}  // namespace zeroproof::verification::bench
