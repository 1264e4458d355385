#include "cuda/optimizer/device/device_matrices.hpp"

#include <algorithm>

#include "cuda/device/kernels/update/muon_element.cuh"
#include "cuda/optimizer/device/device_tables.hpp"

namespace zeroproof::cuda {
namespace {

/// The matrix as kernels find the part of an element. Its elements have the numbers of their
/// places: those of the undistributed model, or without undistributed matrices those of this rank's
/// tensor.
device::StepMatrix step_matrix(const OptimizerSetup& setup, const WholeMatrix& matrix) {
  const bool local = setup.matrices.empty() && !setup.placement.empty();
  return {.num_parts = matrix.alike ? 1 : static_cast<std::int64_t>(matrix.parts.size()),
          .begin = local ? setup.placement[matrix.tensor].begin : matrix.begin,
          .columns = matrix.columns,
          .period = matrix.cut.back(),
          .by_columns = matrix.by_columns ? 1 : 0};
}

}  // namespace

DeviceMatrices::Tables DeviceMatrices::tables_of(const RankShard& shard) {
  const MatrixExchange& plan = *shard.matrices;
  const MuonSettings& muon = shard.setup.hyper.muon;
  Tables tables{.pieces = step_pieces(shard.setup, shard.ranges)};
  const auto of_matrices = std::ranges::stable_partition(
      tables.pieces,
      [&](const device::StepPiece& piece) { return plan.matrix_of(piece.tensor) < 0; });
  tables.num_others = of_matrices.begin() - tables.pieces.begin();
  tables.tensors.resize(shard.setup.layout->tensors().size());
  for (const WholeMatrix& matrix : plan.matrices()) {
    if (matrix.parts.empty()) continue;  // it has no pieces
    device::StepMatrix& tensor = tables.tensors[matrix.tensor];
    tensor = step_matrix(shard.setup, matrix);
    tensor.first_part = static_cast<std::int64_t>(tables.parts.size());
    for (std::size_t p = 0; p < matrix.parts.size(); ++p) {
      const auto [rows, columns, begin] = matrix.parts[p];
      tables.parts.push_back(
          {matrix.cut[p + 1],
           muon.scale_factor * device::muon_scale_of(muon.scale, rows, columns)});
      if (plan.computes(plan.matrix_of(matrix.tensor)))
        tables.values_numel =
            std::max(tables.values_numel, device::newton_schulz_numel(rows, columns));
    }
  }
  return tables;
}

DeviceMatrices::DeviceMatrices(const RankShard& shard, const CommGroups& comm_groups,
                               device::StepMemory& memory)
    : settings_(shard.setup.hyper.muon),
      plan_(*shard.matrices),
      ranges_(shard.ranges),
      orthogonal_(*shard.orthogonal),
      tables_(tables_of(shard)),
      pieces_(device_space(), Span<const device::StepPiece>(tables_.pieces)),
      tensors_(device_space(), Span<const device::StepMatrix>(tables_.tensors)),
      parts_(device_space(), Span<const device::StepMatrixPart>(tables_.parts)),
      norm_(device_space(), 1),
      moves_(shard, comm_groups, tables_.values_numel) {
  memory.matrices = {tensors_.data(), parts_.data(), orthogonal_->as<float>().data()};
  own_ = others_ = memory;
  others_.pieces = pieces_.data();
  others_.num_pieces = tables_.num_others;
  own_.pieces = pieces_.data() + tables_.num_others;
  own_.num_pieces = pieces_.count() - tables_.num_others;
}

void DeviceMatrices::reset() const {
  for (const device::StepPiece& piece : tables_.pieces)
    device_space().fill(own_.matrices.orthogonal + piece.local_begin, 0,
                        piece.numel * static_cast<std::int64_t>(sizeof(float)));
}

void DeviceMatrices::gather(std::int64_t batch) {
  whole_ = moves_.gather(plan_.batches()[batch], [](std::int64_t) { return true; });
}

void DeviceMatrices::enqueue_newton_schulz(std::int64_t batch) const {
  const MatrixBatch& all = plan_.batches()[batch];
  const device::NewtonSchulzMemory memory{whole_ + plan_.most_numel(), norm_.data()};
  for (std::int64_t i = all.first; i < all.end; ++i) {
    if (!plan_.computes(i)) continue;
    for (const MatrixPart& part : plan_.matrices()[i].parts) {
      float* const values = whole_ + plan_.begin_of(i) + part.begin;
      device::enqueue_newton_schulz(settings_.newton_schulz, part.rows, part.columns, values,
                                    values, memory, {&own_.state->halt, &own_.found->skipped});
    }
  }
}

void DeviceMatrices::orthogonalise() {
  for (std::int64_t n = 0; n < num_batches(); ++n) {
    gather(n);
    enqueue_newton_schulz(n);
    scatter();
  }
}

}  // namespace zeroproof::cuda
