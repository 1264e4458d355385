#include "cuda/optimizer/matrices/matrix_exchange.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/comm/exchange/packed_exchange.hpp"

namespace zeroproof::cuda {
namespace {

/// The matrix and its parts, without its ranks.
WholeMatrix whole_matrix(std::int64_t tensor, const TensorMatrix& at,
                         const MatrixTensor& settings) {
  WholeMatrix matrix;
  matrix.tensor = tensor;
  matrix.rows = at.rows;
  matrix.columns = at.columns;
  matrix.begin = at.begin;
  matrix.by_columns = settings.by_columns;
  matrix.cut = {0};
  for (const std::int64_t width : settings.widths) matrix.cut.push_back(matrix.cut.back() + width);
  const std::int64_t extent = matrix.by_columns ? at.columns : at.rows;
  if (settings.widths.empty()) matrix.cut.push_back(extent);
  if (matrix.numel() == 0) return matrix;
  const std::int64_t periods = extent / matrix.cut.back();
  std::int64_t begin = 0;
  for (std::size_t i = 0; i + 1 < matrix.cut.size(); ++i) {
    const std::int64_t width = periods * (matrix.cut[i + 1] - matrix.cut[i]);
    matrix.parts.push_back(
        {matrix.by_columns ? at.rows : width, matrix.by_columns ? width : at.columns, begin});
    matrix.alike &= matrix.cut[i + 1] - matrix.cut[i] == matrix.cut[1];
    begin += matrix.parts.back().rows * matrix.parts.back().columns;
  }
  return matrix;
}

bool any_has(const std::vector<TpMatrixParts>& parts, std::size_t matrix, int rank) {
  return std::ranges::any_of(parts, [&](const TpMatrixParts& tp) { return tp.has(matrix, rank); });
}

bool contains(const std::vector<int>& sorted, int value) {
  return std::ranges::binary_search(sorted, value);
}

}  // namespace

MatrixExchange::MatrixExchange(const OptimizerSetup& setup, const std::vector<TpMatrixParts>& parts,
                               std::int64_t batch_numel)
    : ranks_(matrix_ranks(setup)),
      rank_(matrix_rank(setup)),
      tp_rank_(cuda::tp_rank(setup)),
      returns_(setup.stage > 0 && setup.matrix_owners != MatrixOwners::every) {
  add_matrices(setup, parts);
  find_gatherers(setup, parts);
  find_pieces(setup);
  find_batches(parts, batch_numel);
}

void MatrixExchange::add_matrices(const OptimizerSetup& setup,
                                  const std::vector<TpMatrixParts>& parts) {
  const std::vector<TensorMatrix> shapes =
      setup.matrices.empty() ? matrices_of(*setup.layout) : setup.matrices;
  for (std::size_t t = 0; t < setup.matrix_tensors.size(); ++t) {
    of_tensor_.push_back(-1);
    if (!setup.matrix_tensors[t].is_matrix) continue;
    of_tensor_.back() = static_cast<std::int64_t>(matrices_.size());
    WholeMatrix matrix =
        whole_matrix(static_cast<std::int64_t>(t), shapes[t], setup.matrix_tensors[t]);
    matrix.split = parts.size() > 1 && !parts[tp_rank_].placement[of_tensor_.back()].tp_replicated;
    matrix.shared =
        matrix.split && setup.matrix_tensor_parallel == MatrixTensorParallel::distributed;
    matrices_.push_back(std::move(matrix));
  }
  for (const TpMatrixParts& of_rank : parts) {
    places_.push_back(of_rank.placement);
    numel_.push_back(of_rank.numel);
  }
}

void MatrixExchange::find_gatherers(const OptimizerSetup& setup,
                                    const std::vector<TpMatrixParts>& parts) {
  std::vector<int> owners;
  if (returns_) {
    std::vector<MatrixShape> shapes;
    for (const WholeMatrix& matrix : matrices_) shapes.push_back({matrix.rows, matrix.columns});
    owners = owners_of_matrices(setup.matrix_owners, shapes, ranks_);
  }
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    WholeMatrix& matrix = matrices_[i];
    owns_.push_back(parts[tp_rank_].has(i, rank_));
    if (matrix.numel() == 0) continue;
    if (returns_) {
      matrix.gatherers = {owners[i]};
      continue;
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      if (matrix.split ? any_has(parts, i, rank) : parts[tp_rank_].has(i, rank))
        matrix.gatherers.push_back(rank);
    }
  }
}

void MatrixExchange::find_pieces(const OptimizerSetup& setup) {
  pieces_.resize(matrices_.size());
  for (int rank = 0; rank < ranks_; ++rank) {
    for (const Piece& piece :
         setup.layout->pieces(setup.stage == 0 ? state_ranges(setup) : setup.shards->shard(rank))) {
      const std::int64_t matrix = matrix_of(piece.tensor);
      if (matrix >= 0 && (rank == rank_ || gathers(matrix)))
        pieces_[matrix].push_back({rank, piece});
    }
  }
}

void MatrixExchange::find_batches(const std::vector<TpMatrixParts>& parts,
                                  std::int64_t batch_numel) {
  std::vector<std::int64_t> load;  // [ranks] of the batch
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const WholeMatrix& matrix = matrices_[i];
    // On any TP rank, because TP ranks call the collectives of a batch together.
    std::int64_t most = 0;
    for (const TpMatrixParts& tp : parts) most = std::max(most, tp.numel[i]);
    std::vector<std::int64_t> more(ranks_);
    for (int rank = 0; rank < ranks_; ++rank) {
      if (returns_ ? contains(matrix.gatherers, rank) : any_has(parts, i, rank))
        more[rank] = matrix.shared ? most : matrix.numel();
    }
    bool fits = !batches_.empty();
    for (int rank = 0; rank < ranks_ && fits; ++rank)
      fits = more[rank] == 0 || load[rank] == 0 || load[rank] + more[rank] <= batch_numel;
    const auto index = static_cast<std::int64_t>(i);
    if (!fits) {
      batches_.push_back({index, index});
      load.assign(ranks_, 0);
    }
    for (int rank = 0; rank < ranks_; ++rank) load[rank] += more[rank];
    MatrixBatch& batch = batches_.back();
    ++batch.end;
    begin_.push_back(batch.numel);
    if (gathers(index)) batch.numel += memory_numel(index);
    for (int rank = 0; rank < ranks_; ++rank) {
      const bool leaves = matrix.gatherers.size() > 1 || !contains(matrix.gatherers, rank);
      batch.moves |= leaves && !matrix.gatherers.empty() && parts[tp_rank_].has(i, rank);
    }
  }
}

std::int64_t MatrixExchange::most_numel() const {
  std::int64_t most = 0;
  for (const MatrixBatch& batch : batches_) most = std::max(most, batch.numel);
  return most;
}

bool MatrixExchange::gathers(std::int64_t matrix) const {
  return contains(matrices_[matrix].gatherers, rank_);
}

bool MatrixExchange::computes(std::int64_t matrix) const {
  return gathers(matrix) && (returns_ ? numel_[tp_rank_][matrix] > 0 : owns_[matrix]);
}

MatrixExchange::Stretch MatrixExchange::stretch_at(const WholeMatrix& matrix,
                                                   std::int64_t element) {
  const std::int64_t row = element / matrix.columns, column = element % matrix.columns;
  const std::int64_t in_extent = matrix.by_columns ? column : row;
  const std::int64_t period = in_extent / matrix.cut.back(), offset = in_extent % matrix.cut.back();
  const auto part = static_cast<std::size_t>(std::ranges::upper_bound(matrix.cut, offset) -
                                             matrix.cut.begin() - 1);
  const std::int64_t width = matrix.cut[part + 1] - matrix.cut[part];
  const std::int64_t rest = matrix.cut[part + 1] - offset;  // rows or columns of this interval
  const std::int64_t in_part = period * width + offset - matrix.cut[part];
  const MatrixPart& at = matrix.parts[part];
  if (matrix.by_columns) return {at.begin + row * at.columns + in_part, rest, part};
  return {at.begin + in_part * at.columns + column, rest * matrix.columns - column, part};
}

void MatrixExchange::for_stretches(std::int64_t matrix, int tp_rank, std::int64_t tensor_begin,
                                   std::int64_t numel,
                                   const std::function<void(const Stretch&)>& body) const {
  const WholeMatrix& whole = matrices_[matrix];
  const TensorPlacement& place = places_[tp_rank][matrix];
  for (std::int64_t at = tensor_begin, end = tensor_begin + numel; at < end;) {
    Stretch next = stretch_at(whole, place.global(at) - whole.begin);
    next.numel = std::min({next.numel, end - at, place.row_numel - at % place.row_numel});
    body(next);
    at += next.numel;
  }
}

MatrixMessages MatrixExchange::messages(const MatrixBatch& batch, const Updated& updated) const {
  MatrixMessages all{
      std::vector<std::vector<MatrixRun>>(ranks_), std::vector<std::vector<MatrixRun>>(ranks_), {}};
  for (std::int64_t i = batch.first; i < batch.end; ++i) {
    const WholeMatrix& matrix = matrices_[i];
    if (!updated(matrix.tensor)) continue;
    for (const auto& [rank, piece] : pieces_[i]) {
      std::int64_t local = piece.local_begin;
      if (rank == rank_) {
        for (const int to : matrix.gatherers) {
          if (to != rank_) all.away[to].push_back({local, 0, piece.numel});
        }
        if (!gathers(i)) continue;
      }
      std::vector<MatrixRun>& runs = rank == rank_ ? all.own : all.here[rank];
      if (matrix.shared) {
        runs.push_back({local, begin_[i] + piece.tensor_begin, piece.numel});
        continue;
      }
      for_stretches(i, tp_rank_, piece.tensor_begin, piece.numel, [&](const Stretch& next) {
        runs.push_back({local, begin_[i] + next.place, next.numel});
        local += next.numel;
      });
    }
  }
  return all;
}

MatrixMessageBytes MatrixExchange::message_bytes() const {
  const auto bytes = [](const std::vector<MatrixRun>& runs) {
    std::int64_t sum = 0;
    for (const MatrixRun& run : runs) sum += run.numel * static_cast<std::int64_t>(sizeof(float));
    return next_part(sum);
  };
  const auto total = [&](const std::vector<std::vector<MatrixRun>>& ranks, std::size_t from_runs) {
    std::int64_t sum = 0;
    for (const std::vector<MatrixRun>& runs : ranks)
      sum += runs.size() < from_runs ? 0 : bytes(runs);
    return sum;
  };
  constexpr std::size_t any = 0, scattered = 2;  // one run is sent from its place
  const auto every = [](std::int64_t /*tensor*/) { return true; };
  MatrixMessageBytes most;
  for (const MatrixBatch& batch : batches_) {
    const MatrixMessages all = messages(batch, every);
    most.out = std::max(most.out, total(all.away, scattered));
    most.in = std::max(most.in, total(all.here, any));
    if (returns_) {
      most.out = std::max(most.out, total(all.here, scattered));
      most.in = std::max(most.in, total(all.away, any));
    }
    std::vector<std::vector<MatrixRun>> of_tp;
    for (int rank = 0; rank < static_cast<int>(places_.size()) && places_.size() > 1; ++rank)
      of_tp.push_back(tp_runs(batch, every, rank));
    most.gathered = std::max(most.gathered, total(of_tp, scattered));
  }
  return most;
}

std::vector<MatrixRun> MatrixExchange::tp_runs(const MatrixBatch& batch, const Updated& updated,
                                               int tp_rank) const {
  std::vector<MatrixRun> runs;
  for (std::int64_t i = batch.first; i < batch.end; ++i) {
    if (!matrices_[i].split || matrices_[i].shared || !gathers(i) || !updated(matrices_[i].tensor))
      continue;
    for_stretches(i, tp_rank, 0, numel_[tp_rank][i], [&](const Stretch& next) {
      runs.push_back({0, begin_[i] + next.place, next.numel});
    });
  }
  return runs;
}

}  // namespace zeroproof::cuda
