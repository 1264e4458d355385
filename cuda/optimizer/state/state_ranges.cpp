#include "cuda/optimizer/state/state_ranges.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/layout/joined_ranges.hpp"
#include "cuda/comm/exchange/bucket_plan.hpp"
#include "cuda/host/formats/state_block_parts.hpp"

namespace zeroproof::cuda {
namespace {

/// Whether TP ranks have parts of the tensor, so that one that ends here may continue there.
bool is_part(const OptimizerSetup& setup, std::int64_t tensor) {
  return !setup.placement.empty() && !setup.placement[tensor].tp_replicated;
}

void sort_and_join(std::vector<std::int64_t>& blocks) {
  std::ranges::sort(blocks);
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
}

/// Blocks of which ranks with the same parts of tensors have fragments.
std::vector<std::int64_t> blocks_cut_here(const OptimizerSetup& setup) {
  std::vector<std::int64_t> blocks;
  std::vector<Piece> whole, fragments;
  const int owners = setup.stage == 0 ? 1 : setup.shards->world_size();
  for (int rank = 0; rank < owners; ++rank) {
    whole.clear();
    fragments.clear();
    const std::vector<FlatRange> ranges =
        setup.stage == 0 ? state_ranges(setup) : setup.shards->shard(rank);
    for (const Piece& run : state_ranges(setup, setup.layout->pieces(ranges)))
      cut_at_blocks(setup, run, whole, fragments);
    for (const Piece& fragment : fragments)
      blocks.push_back(undistributed_begin(setup, fragment) / state_block_numel);
  }
  sort_and_join(blocks);
  return blocks;
}

/// Adds those of the other ranks. Collective over tp.
void add_blocks_of_others(Communicator& tp, std::vector<std::int64_t>& blocks) {
  const auto ranks = static_cast<std::size_t>(tp.world_size());
  std::vector<std::uint64_t> counts(ranks);
  counts[tp.rank()] = blocks.size();
  tp.all_reduce(counts, IntegerReduce::max);
  std::vector<std::vector<std::int64_t>> of_ranks(ranks);
  std::vector<Span<std::byte>> receive(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    of_ranks[rank].resize(counts[rank]);
    receive[rank] = std::as_writable_bytes(Span<std::int64_t>(of_ranks[rank]));
  }
  tp.all_gather(std::as_bytes(Span<const std::int64_t>(blocks)), receive);
  for (const std::vector<std::int64_t>& others : of_ranks)
    blocks.insert(blocks.end(), others.begin(), others.end());
  sort_and_join(blocks);
}

}  // namespace

std::vector<Piece> state_ranges(const OptimizerSetup& setup, const std::vector<Piece>& pieces) {
  if (setup.placement.empty()) return pieces;
  std::vector<Piece> runs;
  for (const Piece& piece : pieces) {
    const TensorPlacement& place = setup.placement[piece.tensor];
    const bool gaps = place.row_numel != place.row_stride;
    for (std::int64_t begin = 0; begin < piece.numel; begin += runs.back().numel) {
      const std::int64_t in_row = (piece.tensor_begin + begin) % place.row_numel;
      runs.push_back(piece.part(begin, gaps ? place.row_numel - in_row : piece.numel));
    }
  }
  return runs;
}

std::int64_t undistributed_begin(const OptimizerSetup& setup, const Piece& run) {
  if (setup.placement.empty()) return run.global_begin;
  return setup.placement[run.tensor].global(run.tensor_begin);
}

std::vector<FlatRange> state_blocks(const OptimizerSetup& setup, const std::vector<Piece>& runs) {
  std::vector<FlatRange> all;
  all.reserve(runs.size());
  for (const Piece& run : runs) {
    const std::int64_t begin = undistributed_begin(setup, run);
    all.push_back({begin / state_block_numel, (begin + run.numel - 1) / state_block_numel + 1});
  }
  return joined_ranges(std::move(all));
}

std::vector<FlatRange> blocks_of_state(const OptimizerSetup& setup,
                                       const std::vector<Piece>& pieces) {
  if (!host::any_state_scales(setup.hyper, setup.state_formats)) return {};
  return state_blocks(setup, state_ranges(setup, pieces));
}

void cut_at_blocks(const OptimizerSetup& setup, const Piece& run, std::vector<Piece>& whole,
                   std::vector<Piece>& fragments) {
  // The last block of a tensor ends with the tensor; a part does not contain the position of that
  // end.
  const std::int64_t numel = setup.layout->tensors()[run.tensor].numel;
  const bool is_last = !is_part(setup, run.tensor) && run.tensor_begin + run.numel == numel;
  const host::StateBlockParts parts =
      host::state_block_parts(run, undistributed_begin(setup, run), is_last);
  if (parts.head.numel > 0) fragments.push_back(parts.head);
  if (parts.whole.numel > 0) whole.push_back(parts.whole);
  if (parts.tail.numel > 0) fragments.push_back(parts.tail);
}

std::vector<std::int64_t> cut_state_blocks(const OptimizerSetup& setup) {
  std::vector<std::int64_t> blocks = blocks_cut_here(setup);
  if (setup.tp != nullptr && setup.tp->world_size() > 1) add_blocks_of_others(*setup.tp, blocks);
  return blocks;
}

}  // namespace zeroproof::cuda
