#pragma once
// What is measured. Rows hold references to the arguments.

#include <vector>

#include "verification/bench/data.hpp"
#include "verification/bench/measure/row.hpp"
#include "verification/bench/measure/worker_team.hpp"

namespace zeroproof::verification::bench {

/// What the whole-step rows found besides their buffers.
struct StepResults {
  double fused_norm = 0;
  double seven_norm = 0;
  bool found_inf = false;                 ///< by any row; the data has none
  bool norm_changed = false;              ///< the gradient is the same in every round, so its norm must be
  std::vector<double> zero_seconds = {};  ///< part of each call of the seven passes, the first is not kept
};

/// Loops without arithmetic, one row for every access shape, instruction set and kind of store.
void add_limit_rows(std::vector<Row>& rows, Data& data, WorkerTeam& team);

/// Single operations.
void add_twin_rows(std::vector<Row>& rows, Data& data, int num_threads);

/// Update rules other than plain adamw, and the second pass of the fused step.
void add_rule_rows(std::vector<Row>& rows, Data& data, int num_threads);

/// The whole step in two passes and in seven.
void add_step_rows(std::vector<Row>& rows, Data& data, WorkerTeam& team, int num_threads,
                   StepResults& results);

/// adamw of the reference and of the host twin, both on one thread.
void add_reference_rows(std::vector<Row>& rows, Data& data);

std::vector<Comparison> comparisons();

/// Compares what the timed calls left behind.
std::vector<Check> check_bits(const Data& data, const StepResults& results);

}  // namespace zeroproof::verification::bench
