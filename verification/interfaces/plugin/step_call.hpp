#pragma once
// Inputs of a library's whole step besides the buffers: the settings of the run, and tables of
// owners and matrices.

#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "verification/ops/op_setting.hpp"

namespace zeroproof::verification {

/// Constant for a whole run.
struct StepTables {
  std::vector<std::uint64_t> tensors;  ///< [num_tensors, 4]: begin, numel, param group, clip group
  std::vector<std::uint64_t> shards;   ///< [n, 3]: rank, begin, numel; rank after rank
  std::vector<std::uint32_t> leaf_ranks;  ///< [M]: the rank that computed a micro-batch
  std::vector<double> max_norms;          ///< [clip groups]; 0 does not clip
  /// [n, 7]: tensor, rows, columns, by columns (1) or rows, period, first, width of a part (R28);
  /// matrix after matrix. Empty without the rule muon, as polynomials.
  std::vector<std::uint64_t> matrix_parts;
  std::vector<float> polynomials;  ///< [Newton-Schulz steps, 3]: a, b, c
};
StepTables step_tables(const OptimizerSetup& setup);

/// lr and weight_decay of every param group at a step, [groups, 2].
std::vector<double> group_rates(const OptimizerSetup& setup, std::int64_t t);

/// Settings by name: those of updates (of the default param group), then those of the step, of its
/// loss scaler and of the rule muon, where it is the rule.
std::vector<OpSetting> step_settings(const OptimizerSetup& setup, std::int64_t t,
                                     std::int64_t divisor, const StepScalars& scalars);

}  // namespace zeroproof::verification
