#include "cuda/optimizer/matrices/matrix_moves.hpp"

#include <algorithm>
#include <cstddef>

#include "cuda/comm/exchange/micro_batches.hpp"

namespace zeroproof::cuda {
namespace {

constexpr std::int64_t width = sizeof(float);

std::vector<Stretches> by_rank(const std::vector<std::vector<MatrixRun>>& ranks,
                               std::int64_t MatrixRun::*begin, float* buffer) {
  std::vector<Stretches> all;
  for (const std::vector<MatrixRun>& runs : ranks) all.push_back(stretches_of(runs, begin, buffer));
  return all;
}

std::int64_t bytes_of(const Stretches& stretches) {
  std::int64_t bytes = 0;
  for (const Span<std::byte> stretch : stretches) bytes += numel(stretch);
  return bytes;
}

}  // namespace

Stretches stretches_of(const std::vector<MatrixRun>& runs, std::int64_t MatrixRun::*begin,
                       float* memory) {
  Stretches stretches;
  stretches.reserve(runs.size());
  for (const MatrixRun& run : runs)
    stretches.push_back({reinterpret_cast<std::byte*>(memory + run.*begin),
                         static_cast<std::size_t>(run.numel * width)});
  return stretches;
}

MatrixMoves::MatrixMoves(const RankShard& shard, const CommGroups& comm_groups,
                         std::int64_t rest_numel)
    : setup_(shard.setup),
      plan_(*shard.matrices),
      orthogonal_(*shard.orthogonal),
      memory_(*shard.messages),
      comm_groups_(comm_groups),
      numel_(plan_.most_numel() + rest_numel),
      most_bytes_(plan_.message_bytes()) {}

float* MatrixMoves::gather(const MatrixBatch& batch, const MatrixExchange::Updated& updated) {
  auto* const whole = reinterpret_cast<float*>(memory_.matrices.take(numel_ * width));
  // As large in every step, whichever tensors it updates.
  memory_.out.take(most_bytes_.out);
  memory_.in.take(most_bytes_.in);
  memory_.gathered.take(most_bytes_.gathered);
  auto* const shard = orthogonal_->as<float>().data();
  const MatrixMessages messages = plan_.messages(batch, updated);
  moves_ = batch.moves;
  away_ = by_rank(messages.away, &MatrixRun::local_begin, shard);
  here_ = by_rank(messages.here, &MatrixRun::place, whole);
  std::vector<Move> own_to_whole;
  own_to_shard_.clear();
  for (const MatrixRun& run : messages.own) {
    float *const in_shard = shard + run.local_begin, *const in_whole = whole + run.place;
    own_to_whole.push_back({in_whole, in_shard, run.numel * width});
    own_to_shard_.push_back({in_shard, in_whole, run.numel * width});
  }
  if (moves_) exchange(away_, here_);
  memory_.space().copy_many(own_to_whole);
  complete_over_tp(batch, updated, whole);
  return whole;
}

void MatrixMoves::scatter() {
  if (moves_ && plan_.returns()) exchange(here_, away_);
  memory_.space().copy_many(own_to_shard_);
}

bool MatrixMoves::joins() const {
  const auto& matrices = plan_.matrices();
  return std::ranges::any_of(plan_.batches(), &MatrixBatch::moves) ||
         (tp_ranks(setup_) > 1 && std::ranges::any_of(matrices, &WholeMatrix::split));
}

void MatrixMoves::exchange(const std::vector<Stretches>& send,
                           const std::vector<Stretches>& receive) {
  std::vector<std::int64_t> received_bytes;
  for (const Stretches& stretches : receive) received_bytes.push_back(bytes_of(stretches));
  const std::vector<Span<std::byte>> arrived =
      exchange_packed(*comm_groups_.comm, send, received_bytes, memory_.out, memory_.in);
  std::vector<Move> moves;
  for (std::size_t rank = 0; rank < receive.size(); ++rank)
    unpack(arrived[rank].data(), receive[rank], moves);
  memory_.space().copy_many(moves);
}

void MatrixMoves::complete_over_tp(const MatrixBatch& batch, const MatrixExchange::Updated& updated,
                                   float* whole) {
  if (tp_ranks(setup_) == 1) return;
  std::vector<Stretches> parts;
  for (int rank = 0; rank < tp_ranks(setup_); ++rank)
    parts.push_back(stretches_of(plan_.tp_runs(batch, updated, rank), &MatrixRun::place, whole));
  if (std::ranges::all_of(parts, &Stretches::empty)) return;  // on all TP ranks
  gather_packed(*comm_groups_.tp, parts[tp_rank(setup_)], parts, memory_.gathered);
}

}  // namespace zeroproof::cuda
