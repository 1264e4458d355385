#include "cuda/optimizer/matrices/matrix_updates.hpp"

#include <algorithm>
#include <cstddef>

#include "cuda/comm/exchange/micro_batches.hpp"

namespace zeroproof::cuda {
namespace {

constexpr std::int64_t width = sizeof(float);

Stretches stretches_of(const std::vector<MatrixRun>& runs, std::int64_t MatrixRun::*begin,
                       float* buffer) {
  Stretches stretches;
  stretches.reserve(runs.size());
  for (const MatrixRun& run : runs)
    stretches.push_back({reinterpret_cast<std::byte*>(buffer + run.*begin),
                         static_cast<std::size_t>(run.numel * width)});
  return stretches;
}

std::int64_t bytes_of(const Stretches& stretches) {
  std::int64_t bytes = 0;
  for (const Span<std::byte> stretch : stretches) bytes += numel(stretch);
  return bytes;
}

}  // namespace

MatrixUpdates::MatrixUpdates(const RankShard& shard, const KernelTable& ops)
    : setup_(shard.setup),
      ops_(ops),
      pieces_(shard.pieces),
      exchange_(shard.matrices),
      orthogonal_(shard.orthogonal),
      memory_(shard.messages) {
  if (exchange_ == nullptr) return;
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
    auto* const whole = reinterpret_cast<float*>(memory_->matrices.take(batch.numel * width));
    const Places places = places_of(exchange_->messages(batch, updated), whole);
    if (batch.moves) exchange(places.away, places.here);
    memory_->space().copy_many(places.own_to_whole);
    complete_over_tp(batch, updated, whole);
    compute(batch, updated, whole);
    if (batch.moves && exchange_->returns()) exchange(places.here, places.away);
    memory_->space().copy_many(places.own_to_shard);
  }
}

MatrixUpdates::Places MatrixUpdates::places_of(const MatrixMessages& messages, float* whole) const {
  auto* const shard = (*orthogonal_)->as<float>().data();
  Places places;
  for (const std::vector<MatrixRun>& runs : messages.away)
    places.away.push_back(stretches_of(runs, &MatrixRun::local_begin, shard));
  for (const std::vector<MatrixRun>& runs : messages.here)
    places.here.push_back(stretches_of(runs, &MatrixRun::place, whole));
  for (const MatrixRun& run : messages.own) {
    float *const in_shard = shard + run.local_begin, *const in_whole = whole + run.place;
    places.own_to_whole.push_back({in_whole, in_shard, run.numel * width});
    places.own_to_shard.push_back({in_shard, in_whole, run.numel * width});
  }
  return places;
}

void MatrixUpdates::exchange(const std::vector<Stretches>& send,
                             const std::vector<Stretches>& receive) {
  std::vector<std::int64_t> received_bytes;
  for (const Stretches& stretches : receive) received_bytes.push_back(bytes_of(stretches));
  const std::vector<Span<std::byte>> arrived =
      exchange_packed(*setup_.comm, send, received_bytes, memory_->out, memory_->in);
  std::vector<Move> moves;
  for (std::size_t rank = 0; rank < receive.size(); ++rank)
    unpack(arrived[rank].data(), receive[rank], moves);
  memory_->space().copy_many(moves);
}

void MatrixUpdates::complete_over_tp(const MatrixBatch& batch,
                                     const MatrixExchange::Updated& updated, float* whole) {
  if (tp_ranks(setup_) == 1) return;
  std::vector<Stretches> parts;
  for (int rank = 0; rank < tp_ranks(setup_); ++rank)
    parts.push_back(
        stretches_of(exchange_->tp_runs(batch, updated, rank), &MatrixRun::place, whole));
  if (std::ranges::all_of(parts, &Stretches::empty)) return;  // on all TP ranks
  gather_packed(*setup_.tp, parts[tp_rank(setup_)], parts, memory_->gathered);
}

void MatrixUpdates::compute(const MatrixBatch& batch, const MatrixExchange::Updated& updated,
                            float* whole) const {
  for (std::int64_t i = batch.first; i < batch.end; ++i) {
    const WholeMatrix& matrix = exchange_->matrices()[i];
    if (!exchange_->computes(i) || !updated(matrix.tensor)) continue;
    for (const MatrixPart& part : matrix.parts) {
      const Span<float> values(whole + exchange_->begin_of(i) + part.begin,
                               static_cast<std::size_t>(part.rows * part.columns));
      ops_.newton_schulz(setup_.exec, setup_.hyper.muon.newton_schulz, part.rows, part.columns,
                         values, values);
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
