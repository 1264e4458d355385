#include "reference/matrix_update.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "reference/blocks.hpp"
#include "reference/buffers.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

/// The elements of a run in a buffer of the rank.
Span<float> of_run(const BlockRun& run, std::vector<float>& buffer) {
  return part(Span<float>(buffer), run.local_begin, run.numel);
}
Span<const float> of_run(const BlockRun& run, const std::vector<float>& buffer) {
  return part(Span<const float>(buffer), run.local_begin, run.numel);
}

}  // namespace

MatrixUpdate::MatrixUpdate(const StepSettings& settings, std::vector<TensorPlacement> placement,
                           std::vector<TensorMatrix> matrices)
    : hyper_(settings.hyper), tensors_(settings.matrix_tensors) {
  if (!traits_of(hyper_.rule).matrices) return;
  if (matrices.empty()) placement.clear();
  positions_ = TensorBlocks(*settings.layout, std::move(placement), std::move(matrices), 0, 0);
}

void MatrixUpdate::run(const std::vector<Piece>& pieces, const TakesPart& takes_part,
                       const ScalarsOf& scalars_of, const MatrixBuffers& x,
                       const Join& join) const {
  if (!traits_of(hyper_.rule).matrices) return;
  for (const Piece& piece : pieces) std::ranges::fill(at(x.orthogonal, piece), 0.0F);
  const std::vector<BlockRun> runs = positions_.runs(pieces);
  for (std::int64_t tensor = 0; tensor < positions_.num_tensors(); ++tensor) {
    if (!contains(tensor) || !takes_part(tensor) || positions_.grid(tensor).numel() == 0) continue;
    std::vector<BlockRun> own;
    std::ranges::copy_if(runs, std::back_inserter(own),
                         [&](const BlockRun& run) { return run.tensor == tensor; });
    const StepScalars& scalars = scalars_of(tensor);

    move_momentum(scalars, own, x);  // orthogonal has e for now
    std::vector<float> matrix = joined(tensor, own, x.orthogonal, join);
    if (own.empty()) continue;
    const std::vector<float> step_sizes = orthogonalise(tensor, scalars, matrix);
    for (const BlockRun& run : own) {
      std::ranges::copy(part(Span<const float>(matrix), run.first, run.numel),
                        of_run(run, x.orthogonal).begin());
      for (std::int64_t i = 0; i < run.numel; ++i) {
        const BlockRun element = {tensor, run.first + i, run.local_begin + i, 1};
        muon_update({}, scalars, step_sizes[part_of(tensor, element.first)],
                    of_run(element, x.orthogonal), of_run(element, x.master));
      }
    }
  }
}

void MatrixUpdate::move_momentum(const StepScalars& scalars, const std::vector<BlockRun>& own,
                                 const MatrixBuffers& x) const {
  for (const BlockRun& run : own)
    muon_momentum({}, {hyper_.nesterov, hyper_.maximize}, scalars, of_run(run, x.grad),
                  of_run(run, x.state.at(StateSlot::exp_avg)), of_run(run, x.orthogonal));
}

std::vector<float> MatrixUpdate::joined(std::int64_t tensor, const std::vector<BlockRun>& own,
                                        const std::vector<float>& direction,
                                        const Join& join) const {
  std::vector<std::uint64_t> bits(positions_.grid(tensor).numel());
  for (const BlockRun& run : own) {
    for (std::int64_t i = 0; i < run.numel; ++i)
      bits[run.first + i] = std::bit_cast<std::uint32_t>(direction[run.local_begin + i]);
  }
  join(tensor, bits);
  std::vector<float> matrix;
  matrix.reserve(bits.size());
  for (const std::uint64_t word : bits)
    matrix.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(word)));
  return matrix;
}

/// Every part becomes O of it. Returns the step size of each part.
std::vector<float> MatrixUpdate::orthogonalise(std::int64_t tensor, const StepScalars& scalars,
                                               std::vector<float>& matrix) const {
  const BlockGrid& whole = positions_.grid(tensor);
  std::vector<std::vector<std::int64_t>> parts(tensors_[tensor].num_parts());
  for (std::int64_t e = 0; e < whole.numel(); ++e)
    parts[part_of(tensor, e)].push_back(e);  // row after row
  std::vector<float> step_sizes;
  for (const std::vector<std::int64_t>& elements : parts) {
    const auto numel = static_cast<std::int64_t>(elements.size());
    const std::int64_t rows = tensors_[tensor].by_columns ? whole.rows : numel / whole.columns;
    std::vector<float> values;
    values.reserve(elements.size());
    for (const std::int64_t e : elements) values.push_back(matrix[e]);
    newton_schulz({}, hyper_.muon.newton_schulz, rows, numel / rows, values, values);
    for (std::int64_t i = 0; i < numel; ++i) matrix[elements[i]] = values[i];
    step_sizes.push_back(muon_step_size(hyper_.muon, scalars, rows, numel / rows));
  }
  return step_sizes;
}

/// The part that has an element of the undistributed matrix.
std::int64_t MatrixUpdate::part_of(std::int64_t tensor, std::int64_t element) const {
  const auto& [is_matrix, by_columns, widths] = tensors_[tensor];
  if (widths.empty()) return 0;
  const std::int64_t columns = positions_.grid(tensor).columns;
  const std::int64_t line = by_columns ? element % columns : element / columns;
  std::int64_t period = 0;
  for (const std::int64_t width : widths) period += width;
  std::int64_t end = 0;
  for (std::size_t part = 0; part + 1 < widths.size(); ++part) {
    end += widths[part];
    if (line % period < end) return static_cast<std::int64_t>(part);
  }
  return static_cast<std::int64_t>(widths.size()) - 1;
}

}  // namespace zeroproof::reference
