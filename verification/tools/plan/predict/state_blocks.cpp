#include "verification/tools/plan/predict/state_blocks.hpp"

#include <algorithm>
#include <cstddef>

#include "common/step/distributed_optimizer.hpp"
#include "verification/tools/plan/predict/predicted_step.hpp"

namespace zeroproof {
namespace {

std::int64_t count_distinct(std::vector<std::int64_t>& blocks) {
  std::ranges::sort(blocks);
  return std::unique(blocks.begin(), blocks.end()) - blocks.begin();
}

/// The values of all TP ranks, in rank order.
std::vector<std::int64_t> of_all(Communicator& tp, const std::vector<std::int64_t>& mine) {
  const auto ranks = static_cast<std::size_t>(tp.world_size());
  std::vector<std::uint64_t> counts(ranks);
  counts[tp.rank()] = mine.size();
  tp.all_reduce(counts, IntegerReduce::sum);
  std::size_t total = 0;
  for (const std::uint64_t count : counts) total += static_cast<std::size_t>(count);
  std::vector<std::int64_t> all(total);
  std::vector<Span<std::byte>> places;
  Span<std::int64_t> rest(all);
  for (const std::uint64_t count : counts) {
    places.push_back(std::as_writable_bytes(rest.first(count)));
    rest = rest.subspan(count);
  }
  tp.all_gather(std::as_bytes(Span<const std::int64_t>(mine)), places);
  return all;
}

}  // namespace

void StatePlaces::for_stretches(const Piece& piece, const Use& use) const {
  if (placement.empty()) return use(piece.global_begin, piece.global_begin + piece.numel);
  const TensorPlacement& place = placement[piece.tensor];
  const std::int64_t end = piece.tensor_begin + piece.numel;
  for (std::int64_t at = piece.tensor_begin; at < end;) {
    const bool gaps = place.row_stride > place.row_numel;
    const std::int64_t row_end = gaps ? (at / place.row_numel + 1) * place.row_numel : end;
    const std::int64_t next = std::min(end, row_end);
    use(place.global(at), place.global(at) + next - at);
    at = next;
  }
}

std::int64_t count_blocks(const StatePlaces& places, const std::vector<FlatRange>& ranges) {
  std::int64_t count = 0, last = -1;
  for (const Piece& piece : places.layout.pieces(ranges)) {
    places.for_stretches(piece, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t first = std::max(begin / state_block_numel, last + 1);
      last = (end - 1) / state_block_numel;
      count += last - first + 1;
    });
  }
  return count;
}

void add_cut_blocks(const StatePlaces& places, const std::vector<FlatRange>& ranges,
                    std::vector<std::int64_t>& blocks) {
  for (const Piece& piece : places.layout.pieces(ranges)) {
    const auto t = static_cast<std::size_t>(piece.tensor);
    const bool whole = places.placement.empty() || places.placement[t].tp_replicated;
    const bool ends = piece.tensor_begin + piece.numel == places.layout.tensors()[t].numel;
    places.for_stretches(piece, [&](std::int64_t begin, std::int64_t end) {
      if (begin % state_block_numel != 0) blocks.push_back(begin / state_block_numel);
      if (end % state_block_numel != 0 && !(whole && ends))
        blocks.push_back(end / state_block_numel);
    });
  }
}

void set_state_blocks(PredictedStep& shape, const OptimizerSetup& setup,
                      const std::vector<FlatRange>& ranges) {
  const StatePlaces places{*setup.layout, setup.placement};
  shape.state_blocks = count_blocks(places, ranges);
  std::vector<std::int64_t> cut;
  for (int rank = 0; setup.stage > 0 && rank < setup.shards->world_size(); ++rank)
    add_cut_blocks(places, setup.shards->shard(rank), cut);
  if (setup.stage == 0) add_cut_blocks(places, ranges, cut);
  if (shape.tp_size > 1) cut = of_all(*setup.tp, cut);
  shape.cut_blocks = count_distinct(cut);
}

}  // namespace zeroproof
