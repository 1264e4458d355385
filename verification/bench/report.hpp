#pragma once

#include <string>
#include <vector>

#include "verification/bench/checkpoint/save_rows.hpp"
#include "verification/bench/measure/machine.hpp"
#include "verification/bench/offload/offload_rows.hpp"
#include "verification/bench/options.hpp"
#include "verification/bench/product/product_rows.hpp"
#include "verification/bench/product/sweep.hpp"
#include "verification/bench/suite.hpp"

namespace zeroproof::verification::bench {

struct Report {
  Options options;
  Machine machine;
  std::int64_t numel = 0;
  std::vector<Row> rows;
  std::vector<ProductResult> product;
  Sweep sweep;
  std::vector<SaveResult> saves;
  std::vector<OffloadResult> offload;
  std::vector<Check> checks;
  StepResults step;

  bool ok() const;
  /// Involuntary context switches of all samples.
  long switches() const;
  std::size_t num_samples() const;
  /// True if others wanted the cores: more than one switch in two samples. (On an idle machine there is about
  /// one in six, when a worker wakes up on the core of the thread that called it.)
  bool busy() const;
  /// Speed-up of the fused step if zero_grad is taken out of the seven passes: the fused step leaves the
  /// gradient sum for the next backward to overwrite, and a training loop that does the same saves that pass
  /// anyway. Median over rounds.
  double speed_up_without_zero() const;
};

/// The tables of what was measured, at most 100 columns wide. Goals are judged by ratios within rounds, because the
/// memory of a shared machine can change its speed between two samples.
std::string to_text(const Report& report);

/// Parts of it.
std::string product_table(const Report& report);
std::string sweep_tables(const Report& report);
std::string checkpoint_tables(const Report& report);
std::string offload_table(const Report& report);

/// Schema "zeroproof-bench/2".
std::string to_json(const Report& report);

}  // namespace zeroproof::verification::bench
