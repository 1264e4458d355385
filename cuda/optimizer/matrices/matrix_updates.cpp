#include "cuda/optimizer/matrices/matrix_updates.hpp"

#include <algorithm>
#include <cstddef>

#include "cuda/host/operations.hpp"
#include "cuda/host/update/newton_schulz_steps.hpp"

namespace zeroproof::cuda {

MatrixUpdates::MatrixUpdates(const RankShard& shard, const KernelTable& ops)
    : setup_(shard.setup),
      ops_(ops),
      pieces_(shard.pieces),
      exchange_(shard.matrices),
      orthogonal_(shard.orthogonal) {
  if (exchange_ == nullptr) return;
  if (std::ranges::any_of(exchange_->matrices(), &WholeMatrix::shared))
    shared_.emplace(setup_, *exchange_, *shard.messages, ops);
  std::int64_t work_numel = shared_ ? shared_->memory_numel() : 0;
  for (std::size_t i = 0; i < exchange_->matrices().size(); ++i) {
    if (!computes_whole(static_cast<std::int64_t>(i))) continue;
    for (const MatrixPart& part : exchange_->matrices()[i].parts)
      work_numel = std::max(work_numel, host::newton_schulz_numel(setup_.hyper.muon.newton_schulz,
                                                                  part.rows, part.columns));
  }
  moves_.emplace(shard, CommGroups{setup_.comm, setup_.replicas, setup_.tp}, work_numel);
  for (const WholeMatrix& matrix : exchange_->matrices())
    step_sizes_.emplace_back(matrix.parts.size());
}

void MatrixUpdates::set_zero(const MatrixExchange::Updated& wanted) {
  pieces_.run(setup_.exec, [&](const Exec&, const Piece& piece) {
    if (wanted(piece.tensor)) std::ranges::fill(elements(piece), 0.0F);
  });
}

void MatrixUpdates::reset() {
  if (exchange_ != nullptr) set_zero([](std::int64_t) { return true; });
}

void MatrixUpdates::make_step_sizes(const TensorSteps& steps) {
  for (std::size_t i = 0; i < step_sizes_.size(); ++i) {
    const WholeMatrix& matrix = exchange_->matrices()[i];
    if (!steps.updated(matrix.tensor)) continue;
    for (std::size_t p = 0; p < matrix.parts.size(); ++p)
      step_sizes_[i][p] = ops_.muon_step_size(setup_.hyper.muon, steps.scalars(matrix.tensor),
                                              matrix.parts[p].rows, matrix.parts[p].columns);
  }
}

void MatrixUpdates::orthogonalise(const TensorSteps& steps) {
  const auto updated = [&](std::int64_t tensor) { return steps.updated(tensor); };
  make_step_sizes(steps);
  set_zero([&](std::int64_t tensor) { return has(tensor) && !updated(tensor); });
  for (const MatrixBatch& batch : exchange_->batches()) {
    float* const whole = moves_->gather(batch, updated);
    float* const memory = whole + exchange_->most_numel();
    compute(batch, updated, whole, memory);
    if (shared_) shared_->orthogonalise(batch, updated, whole, memory);
    moves_->scatter();
  }
}

void MatrixUpdates::compute(const MatrixBatch& batch, const MatrixExchange::Updated& updated,
                            float* whole, float* memory) const {
  const NewtonSchulzOptions& options = setup_.hyper.muon.newton_schulz;
  for (std::int64_t i = batch.first; i < batch.end; ++i) {
    const WholeMatrix& matrix = exchange_->matrices()[i];
    if (!computes_whole(i) || !updated(matrix.tensor)) continue;
    for (const MatrixPart& part : matrix.parts) {
      const Span<float> values(whole + exchange_->begin_of(i) + part.begin,
                               static_cast<std::size_t>(part.rows * part.columns));
      if (ops_.newton_schulz == host::newton_schulz)
        host::newton_schulz_in(setup_.exec, options, part.rows, part.columns, values, values,
                               memory);
      else
        ops_.newton_schulz(setup_.exec, options, part.rows, part.columns, values, values);
    }
  }
}

void MatrixUpdates::update(const Exec& exec, const StepScalars& scalars, const Piece& piece,
                           Span<float> master) const {
  const std::vector<float>& step_sizes = step_sizes_[exchange_->matrix_of(piece.tensor)];
  exchange_->for_parts(piece, [&](const Piece& range, std::size_t part) {
    const auto begin = static_cast<std::size_t>(range.local_begin - piece.local_begin);
    ops_.muon_update(exec, scalars, step_sizes[part], elements(range),
                     master.subspan(begin, static_cast<std::size_t>(range.numel)));
  });
}

}  // namespace zeroproof::cuda
