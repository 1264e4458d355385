#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verification/bench/measure/machine.hpp"
#include "verification/bench/measure/row.hpp"
#include "verification/bench/ranks/options.hpp"

namespace zeroproof::verification::bench {

struct RankReport {
  RankOptions options;
  Machine machine;
  std::string
      library;         ///< of MPI, as it calls itself, and how it copies between processes if that was chosen
  std::string malloc;  ///< what the environment tells it, "" for nothing
  bool warm = false;   ///< it keeps its memory
  int ranks = 1;
  std::int64_t numel = 0;
  std::vector<Row> rows;
  std::vector<Check> checks;

  bool ok() const;
};

/// The table, at most 100 columns wide. Goals are judged by ratios within rounds.
std::string to_text(const RankReport& report);

/// Schema "zeroproof-bench-ranks/2".
std::string to_json(const RankReport& report);

}  // namespace zeroproof::verification::bench
