// The norm of a rank's pieces (R12), of a gradient that is already unscaled or is unscaled in this
// pass.

#include "cuda/device/step/inv_scale.cuh"
#include "cuda/device/step/nonfinite_flag.cuh"
#include "cuda/device/step/norm_collect.cuh"
#include "cuda/device/step/scalar_sets.cuh"
#include "cuda/device/step/step_passes.hpp"

namespace zeroproof::cuda::device {

namespace {

/// A piece has at most 2^16 deposits, and a block processes at most one piece per warp between two
/// of its carries: 2^25 deposits; 2^32 - 1 would be allowed.
constexpr int turns_between_carries = 64;
static_assert(turns_between_carries * (block_threads / norm_num_lanes) * StepPiece::most_numel <
              std::int64_t{1} << 32);

/// Calls take(piece) for all pieces of a launch. Threads that share a piece call it together; all
/// threads of a block make the same number of calls, so that they can carry together in between.
template <class Collect, class Take>
ZP_DEVICE void take_pieces(const PieceGrid& grid, Collect& collect, const Take& take) {
  const std::int64_t takers = Collect::takers();
  int turns = 0;
  for (std::int64_t first = blockIdx.x * takers; first < grid.num_pieces;
       first += gridDim.x * takers) {
    const std::int64_t n = first + Collect::taker();
    if (n < grid.num_pieces) take(grid.pieces[n]);
    if (++turns % turns_between_carries == 0) collect.carry();
  }
}

/// Additional work of the first block, if requested.
struct ScalarJob {
  ScalarSettings settings;
  bool wanted;
};

/// A launch processes the pieces of one clip group; with one group, all pieces.
struct OneGroup {
  std::int64_t group;
  bool alone;

  ZP_DEVICE bool has(const StepPiece& piece) const { return alone || piece.clip_group == group; }

  template <class Collect>
  ZP_DEVICE std::uint64_t* words(const StepMemory& memory) const {
    return alone ? Collect::words_of(memory.found) : Collect::words_of(memory.groups_found, group);
  }
};

template <class Collect>
ZP_DEVICE void find(const StepMemory& memory, const PieceGrid& grid, const OneGroup& of,
                    Unscaling& unscaling) {
  Collect collect;
  collect.start();
  take_pieces(grid, collect, [&](const StepPiece& piece) {
    if (!of.has(piece)) return;
    const float* grad = memory.grad + piece.local_begin;
    if (piece.counted != 0) {
      collect.piece(grid.phase, piece, grad, [&](float g) { return unscaling(g); });
    } else {
      Collect::see(grid.phase, piece, grad, [&](float g) { (void)unscaling(g); });
    }
  });
  unscaling.finish(memory.found);
  collect.finish(memory.found, of.words<Collect>(memory));
}

template <class Collect>
ZP_KERNEL finite_norm_kernel(StepMemory memory, PieceGrid grid, OneGroup of, ScalarJob scalars) {
  Unscaling unscaling;
  if (memory.state->halt == 0U &&
      make_inv_scale(*memory.state, *memory.input, unscaling.inv_scale)) {
    find<Collect>(memory, grid, of, unscaling);
  }
  // Only after the rest: it may set the halt that this block reads.
  if (scalars.wanted && blockIdx.x == 0) make_scalar_sets(memory, scalars.settings);
}

template <class Collect>
ZP_KERNEL norm_kernel(StepMemory memory, PieceGrid grid, OneGroup of) {
  if (memory.state->halt != 0U) return;
  Collect collect;
  collect.start();
  take_pieces(grid, collect, [&](const StepPiece& piece) {
    if (!of.has(piece) || piece.counted == 0) return;
    collect.piece(grid.phase, piece, memory.grad + piece.local_begin, [](float g) { return g; });
  });
  collect.finish(memory.found, of.words<Collect>(memory));
}

PieceGrid grid_of(const StepMemory& memory) {
  return {memory.pieces, memory.num_pieces, PackPhase().with(memory.grad)};
}

}  // namespace

void enqueue_norm(const StepMemory& memory, const StepRules& rules) {
  if (memory.num_pieces == 0) return;
  const std::int64_t groups = memory.groups_found.count;
  visit_form(rules.hyper.norm, [&](auto collect) {
    for (std::int64_t group = 0; group < groups; ++group) {
      launch(norm_kernel<decltype(collect)>, piece_blocks(memory), block_threads, memory,
             grid_of(memory), OneGroup{group, groups == 1});
    }
  });
}

void enqueue_finite_norm(const StepMemory& memory, const StepRules& rules, bool with_scalars) {
  if (memory.num_pieces == 0 && !with_scalars) return;
  const std::int64_t groups = memory.groups_found.count;
  visit_form(rules.hyper.norm, [&](auto collect) {
    for (std::int64_t group = 0; group < groups; ++group) {
      // Only with the last launch: the scalars may set the halt that these launches read.
      const ScalarJob scalars{scalar_settings(rules.hyper), with_scalars && group + 1 == groups};
      launch(finite_norm_kernel<decltype(collect)>, piece_blocks(memory), block_threads, memory,
             grid_of(memory), OneGroup{group, groups == 1}, scalars);
    }
  });
}

}  // namespace zeroproof::cuda::device
