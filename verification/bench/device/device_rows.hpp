#pragma once
// Rows that are timed on the device's clock, and what is said of them.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "verification/bench/measure/row.hpp"

namespace zeroproof::verification::bench {

/// One number that is judged, median over rounds.
struct Figure {
  std::string name;
  double value = 0;
  double goal = 0;  ///< 0: none
  bool at_least = true;
  std::string unit = {};  ///< "" for a ratio

  bool met() const { return at_least ? value >= goal : value <= goal; }
};

/// Rows whose rounds were interleaved, and their figures.
struct Group {
  std::string title;
  std::vector<Row> rows = {};
  std::vector<Figure> figures = {};
  std::string missing = {};  ///< why there are no rows

  /// A goal up to 1: what part of its limits' speed the row reaches, at least. Above 1: of their time, at most.
  void judge_row(const std::string& name, const std::string& row, double goal);
  /// Seconds per element of one row / those of another.
  void judge_ratio(const std::string& name, const std::string& over, const std::string& under, double goal,
                   bool at_least);
};

class DeviceRows {
 public:
  /// sample: seconds of one call.
  void add(Row row, std::function<double()> sample);

  /// All of them once per round, in another order each round; one more round comes first and is not kept.
  void measure(int rounds);

  std::vector<Row> rows;

 private:
  std::vector<std::function<double()>> samples_;
};

/// Seconds that the device takes for what body enqueues on the current stream.
double device_seconds(const std::function<void()>& body);

/// What is being done, for whoever waits: a line on stderr.
void say(const std::string& what);

}  // namespace zeroproof::verification::bench
