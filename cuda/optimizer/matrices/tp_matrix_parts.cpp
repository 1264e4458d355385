#include "cuda/optimizer/matrices/tp_matrix_parts.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/comm/exchange/micro_batches.hpp"

namespace zeroproof::cuda {
namespace {

using PlaceWords = std::array<std::int64_t, 4>;

template <class T>
std::vector<std::vector<T>> gathered(Communicator& tp, const std::vector<T>& mine) {
  std::vector<std::vector<T>> all(tp.world_size(), std::vector<T>(mine.size()));
  std::vector<Span<std::byte>> receive;
  for (std::vector<T>& one : all) receive.push_back(std::as_writable_bytes(Span<T>(one)));
  tp.all_gather(std::as_bytes(Span<const T>(mine)), receive);
  return all;
}

/// Matrices by tensor: the index of each, or -1.
std::vector<std::int64_t> matrix_numbers(const OptimizerSetup& setup) {
  std::vector<std::int64_t> numbers;
  std::int64_t next = 0;
  for (const MatrixTensor& tensor : setup.matrix_tensors)
    numbers.push_back(tensor.is_matrix ? next++ : -1);
  return numbers;
}

}  // namespace

int matrix_ranks(const OptimizerSetup& setup) {
  return setup.stage == 0 ? 1 : setup.comm->world_size();
}

int matrix_rank(const OptimizerSetup& setup) { return setup.stage == 0 ? 0 : setup.comm->rank(); }

TpMatrixParts matrix_parts_of(const OptimizerSetup& setup) {
  TpMatrixParts parts;
  const std::vector<TensorSlot>& tensors = setup.layout->tensors();
  for (std::size_t t = 0; t < setup.matrix_tensors.size(); ++t) {
    if (!setup.matrix_tensors[t].is_matrix) continue;
    const std::int64_t row = std::max<std::int64_t>(tensors[t].numel, 1);
    // Without undistributed matrices, or without places on one TP rank, the layout has them.
    parts.placement.push_back(setup.matrices.empty() || setup.placement.empty()
                                  ? TensorPlacement{true, tensors[t].begin, row, row}
                                  : setup.placement[t]);
    parts.numel.push_back(tensors[t].numel);
  }
  const int ranks = matrix_ranks(setup);
  const std::vector<std::int64_t> numbers = matrix_numbers(setup);
  parts.owned.resize(parts.numel.size() * static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Piece& piece :
         setup.layout->pieces(setup.stage == 0 ? state_ranges(setup) : setup.shards->shard(rank))) {
      if (numbers[piece.tensor] >= 0) parts.owned[numbers[piece.tensor] * ranks + rank] = 1;
    }
  }
  return parts;
}

std::vector<TpMatrixParts> gather_matrix_parts(const OptimizerSetup& setup) {
  TpMatrixParts mine = matrix_parts_of(setup);
  if (tp_ranks(setup) == 1) return {std::move(mine)};
  std::vector<PlaceWords> places;
  for (std::size_t i = 0; i < mine.numel.size(); ++i) {
    const TensorPlacement& place = mine.placement[i];
    places.push_back({place.begin, place.row_numel, place.row_stride, mine.numel[i]});
  }
  const std::vector<std::vector<PlaceWords>> all_places = gathered(*setup.tp, places);
  const std::vector<std::vector<std::uint8_t>> all_owned = gathered(*setup.tp, mine.owned);
  std::vector<TpMatrixParts> parts(all_places.size());
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto [begin, row_numel, row_stride, numel] = all_places[rank][i];
      parts[rank].placement.push_back(
          {mine.placement[i].tp_replicated, begin, row_numel, row_stride});
      parts[rank].numel.push_back(numel);
    }
    parts[rank].owned = all_owned[rank];
  }
  return parts;
}

}  // namespace zeroproof::cuda
