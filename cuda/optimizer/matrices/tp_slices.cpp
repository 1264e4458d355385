#include "cuda/optimizer/matrices/tp_slices.hpp"

#include <algorithm>

namespace zeroproof::cuda {

TpSlices::TpSlices(const MatrixExchange& plan, int tp_rank, int tp_ranks)
    : plan_(plan), tp_rank_(tp_rank), tp_ranks_(tp_ranks), slices_(plan.matrices().size()) {
  for (const MatrixBatch& batch : plan_.batches()) {
    std::int64_t numel = 0;
    for (std::int64_t i = batch.first; i < batch.end; ++i) {
      const WholeMatrix& matrix = plan_.matrices()[i];
      if (!matrix.shared || !plan_.gathers(i)) continue;
      for (const MatrixPart& part : matrix.parts) {
        TpSlice slice{std::min(part.rows, part.columns),
                      std::max(part.rows, part.columns),
                      part.rows > part.columns,
                      {},
                      numel};
        slice.columns = columns_of(slice, tp_rank_);
        numel += slice.numel();
        slices_[i].push_back(slice);
      }
    }
    most_numel_ = std::max(most_numel_, numel);
  }
}

FlatRange TpSlices::columns_of(const TpSlice& slice, int tp_rank) const {
  const FlatRange blocks = tp_blocks(tp_rank, tp_ranks_);
  return {slice.longer * blocks.begin / 8, slice.longer * blocks.end / 8};
}

template <class Body>
void TpSlices::for_runs(std::int64_t matrix, int tp_rank, const Body& body) const {
  const WholeMatrix& whole = plan_.matrices()[matrix];
  std::int64_t local = 0;
  const auto cut = [&](const MatrixExchange::Stretch& stretch) {
    const MatrixPart& part = whole.parts[stretch.part];
    const TpSlice& slice = slices_[matrix][stretch.part];
    std::int64_t at = stretch.place - part.begin;
    for (const std::int64_t end = at + stretch.numel; at < end;) {
      const std::int64_t row = at / part.columns, column = at % part.columns;
      const std::int64_t of_x = slice.transposed ? row : column;
      int rank = 0;
      while (columns_of(slice, rank).end <= of_x) ++rank;
      const FlatRange columns = columns_of(slice, rank);
      const std::int64_t in_slice = of_x - columns.begin;
      const std::int64_t rest =
          slice.transposed ? (columns.end - row) * part.columns - column : columns.end - column;
      const std::int64_t numel = std::min(end - at, rest);
      const std::int64_t place =
          slice.transposed ? in_slice * part.columns + column : row * columns.numel() + in_slice;
      body(rank, MatrixRun{local, slice.place + place, numel});
      at += numel;
      local += numel;
    }
  };
  plan_.for_stretches(matrix, tp_rank, 0, plan_.numel_of(matrix, tp_rank), cut);
}

MatrixMessages TpSlices::messages(const MatrixBatch& batch,
                                  const MatrixExchange::Updated& updated) const {
  MatrixMessages all{std::vector<std::vector<MatrixRun>>(tp_ranks_),
                     std::vector<std::vector<MatrixRun>>(tp_ranks_),
                     {}};
  for (std::int64_t i = batch.first; i < batch.end; ++i) {
    if (slices_[i].empty() || !updated(plan_.matrices()[i].tensor)) continue;
    for (int from = 0; from < tp_ranks_; ++from) {
      for_runs(i, from, [&](int to, MatrixRun run) {
        run.local_begin += plan_.begin_of(i);
        if (from == tp_rank_) (to == tp_rank_ ? all.own : all.away[to]).push_back(run);
        if (from != tp_rank_ && to == tp_rank_) all.here[from].push_back(run);
      });
    }
  }
  return all;
}

}  // namespace zeroproof::cuda
