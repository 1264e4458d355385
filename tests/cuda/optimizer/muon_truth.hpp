#pragma once
// The step of one matrix by the rule muon (R28), undistributed, by the text of the contract.

#include <cmath>
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

inline double simple_scale(const MuonSettings& muon, std::int64_t rows, std::int64_t columns) {
  const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
  const double longer = r > c ? r : c, quotient = r / c;
  switch (muon.scale) {
    case MuonScale::none:
      break;
    case MuonScale::original:
      return std::sqrt(quotient > 1 ? quotient : 1);
    case MuonScale::spectral:
      return std::sqrt(longer);
    case MuonScale::match_rms_adamw:
      return 0.2 * std::sqrt(longer);
    case MuonScale::unit_rms_norm:
      return std::sqrt(quotient);
  }
  return 1;
}

struct SimpleMuon {
  std::vector<float> exp_avg, orthogonal, master;
};

/// The step of one matrix, undistributed: grad, master and exp_avg as before it.
inline SimpleMuon simple_muon(const OptimizerHyper& hyper, const StepScalars& scalars,
                              const MatrixTensor& matrix, std::int64_t rows, std::int64_t columns,
                              const float* grad, const float* master, const float* exp_avg) {
  const std::int64_t numel = rows * columns;
  SimpleMuon result;
  Values e;
  for (std::int64_t i = 0; i < numel; ++i) {
    const float g = hyper.maximize ? -grad[i] : grad[i];
    const float x = scalars.momentum * exp_avg[i], y = scalars.one_minus_dampening * g;
    result.exp_avg.push_back(x + y);
    const float h = scalars.momentum * result.exp_avg.back();
    e.push_back(hyper.nesterov ? y + h : result.exp_avg.back());
  }
  result.orthogonal.resize(e.size());
  result.master.resize(e.size());
  for (std::size_t p = 0; numel > 0 && p < static_cast<std::size_t>(matrix.num_parts()); ++p) {
    const std::vector<std::int64_t> lines =
        lines_of_part(matrix, p, matrix.by_columns ? columns : rows);
    const auto count = static_cast<std::int64_t>(lines.size());
    const std::int64_t part_rows = matrix.by_columns ? rows : count,
                       part_columns = matrix.by_columns ? count : columns;
    Values part;
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < part_rows; ++i) {
      for (std::int64_t j = 0; j < part_columns; ++j) {
        places.push_back(matrix.by_columns ? i * columns + lines[j] : lines[i] * columns + j);
        part.push_back(e[places.back()]);
      }
    }
    const Values o = simple_newton_schulz(hyper.muon.newton_schulz, part_rows, part_columns, part);
    const double z = hyper.muon.scale_factor * simple_scale(hyper.muon, part_rows, part_columns);
    const auto step_size = static_cast<float>(static_cast<double>(scalars.lr) * z);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const float old = master[places[i]];
      const float a = step_size * o[i];
      const float w = scalars.lr_weight_decay * old;
      result.orthogonal[places[i]] = o[i];
      result.master[places[i]] = old - (scalars.has_decay != 0 ? a + w : a);
    }
  }
  return result;
}

}  // namespace zeroproof::tests
