#pragma once
// The step of one matrix by the rule muon (R28), undistributed, by the reference.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/step/matrix_tensors.hpp"
#include "tests/cuda/update/simple_muon.hpp"

namespace zeroproof::tests {

/// The rows, or columns, of one part.
inline std::vector<std::int64_t> lines_of_part(const MatrixTensor& matrix, std::size_t part,
                                               std::int64_t extent) {
  std::vector<std::int64_t> lines;
  std::int64_t begin = 0, period = 0;
  for (std::size_t i = 0; i < matrix.widths.size(); ++i) {
    if (i < part) begin += matrix.widths[i];
    period += matrix.widths[i];
  }
  for (std::int64_t line = 0; line < extent; ++line) {
    const bool inside = matrix.widths.empty() ||
                        (line % period >= begin && line % period < begin + matrix.widths[part]);
    if (inside) lines.push_back(line);
  }
  return lines;
}

struct SimpleMuon {
  Values exp_avg, orthogonal, master;
};

/// The step of one matrix, undistributed: grad, master and exp_avg as before it.
inline SimpleMuon simple_muon(const OptimizerHyper& hyper, const StepScalars& scalars,
                              const MatrixTensor& matrix, std::int64_t rows, std::int64_t columns,
                              const float* grad, const float* master, const float* exp_avg) {
  const auto numel = static_cast<std::size_t>(rows * columns);
  SimpleMuon result{{exp_avg, exp_avg + numel}, Values(numel), {master, master + numel}};
  Values e(numel);
  reference::muon_momentum({}, {hyper.nesterov, hyper.maximize}, scalars, {grad, numel},
                           result.exp_avg, e);
  for (std::size_t p = 0; numel > 0 && p < static_cast<std::size_t>(matrix.num_parts()); ++p) {
    const std::vector<std::int64_t> lines =
        lines_of_part(matrix, p, matrix.by_columns ? columns : rows);
    const auto count = static_cast<std::int64_t>(lines.size());
    const std::int64_t part_rows = matrix.by_columns ? rows : count,
                       part_columns = matrix.by_columns ? count : columns;
    Values part, part_master;
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < part_rows; ++i) {
      for (std::int64_t j = 0; j < part_columns; ++j) {
        places.push_back(matrix.by_columns ? i * columns + lines[j] : lines[i] * columns + j);
        part.push_back(e[places.back()]);
        part_master.push_back(master[places.back()]);
      }
    }
    const Values o = simple_newton_schulz(hyper.muon.newton_schulz, part_rows, part_columns, part);
    reference::muon_update({}, scalars,
                           reference::muon_step_size(hyper.muon, scalars, part_rows, part_columns),
                           o, part_master);
    for (std::size_t i = 0; i < places.size(); ++i) {
      result.orthogonal[places[i]] = o[i];
      result.master[places[i]] = part_master[i];
    }
  }
  return result;
}

}  // namespace zeroproof::tests
