// The norm of a rank's pieces (R12), of a gradient that is unscaled already or on the way.

#include "cuda/device/step/inv_scale.cuh"
#include "cuda/device/step/nonfinite_flag.cuh"
#include "cuda/device/step/norm_collect.cuh"
#include "cuda/device/step/scalar_sets.cuh"
#include "cuda/device/step/step_passes.hpp"

namespace zeroproof::cuda::device {

namespace {

/// A piece has at most 2^16 deposits, so 2^22 lie between two carries of a block; 2^32 - 1 would be allowed.
constexpr int pieces_between_carries = 64;
static_assert(pieces_between_carries * StepPiece::most_numel < std::int64_t{1} << 32);

/// What the first block does besides, if it is told to.
struct ScalarJob {
  ScalarSettings settings;
  bool wanted;
};

/// A launch takes the pieces of one clip group. Where there is one, all of them.
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
  int taken = 0;
  for (std::int64_t n = blockIdx.x; n < grid.num_pieces; n += gridDim.x) {
    const StepPiece& piece = grid.pieces[n];
    if (!of.has(piece)) continue;
    const float* grad = memory.grad + piece.local_begin;
    if (piece.counted != 0) {
      collect.piece(grid.phase, piece, grad, [&](float g) { return unscaling(g); });
    } else {
      for_each_element(grid.phase, piece, grad, [&](float g) { (void)unscaling(g); });
    }
    if (++taken % pieces_between_carries == 0) collect.carry();
  }
  unscaling.finish(memory.found);
  collect.finish(memory.found, of.words<Collect>(memory));
}

template <class Collect>
ZP_KERNEL finite_norm_kernel(StepMemory memory, PieceGrid grid, OneGroup of, ScalarJob scalars) {
  Unscaling unscaling;
  if (memory.state->halt == 0U && make_inv_scale(*memory.state, *memory.input, unscaling.inv_scale)) {
    find<Collect>(memory, grid, of, unscaling);
  }
  // Not before the rest: it may set the halt that this block looked at.
  if (scalars.wanted && blockIdx.x == 0) make_scalar_sets(memory, scalars.settings);
}

template <class Collect>
ZP_KERNEL norm_kernel(StepMemory memory, PieceGrid grid, OneGroup of) {
  if (memory.state->halt != 0U) return;
  Collect collect;
  collect.start();
  int taken = 0;
  for (std::int64_t n = blockIdx.x; n < grid.num_pieces; n += gridDim.x) {
    const StepPiece& piece = grid.pieces[n];
    if (!of.has(piece)) continue;
    const float* grad = memory.grad + piece.local_begin;
    if (piece.counted != 0) collect.piece(grid.phase, piece, grad, [](float g) { return g; });
    if (++taken % pieces_between_carries == 0) collect.carry();
  }
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
      launch(norm_kernel<decltype(collect)>, piece_blocks(memory), block_threads, memory, grid_of(memory),
             OneGroup{group, groups == 1});
    }
  });
}

void enqueue_finite_norm(const StepMemory& memory, const StepRules& rules, bool with_scalars) {
  if (memory.num_pieces == 0 && !with_scalars) return;
  const std::int64_t groups = memory.groups_found.count;
  visit_form(rules.hyper.norm, [&](auto collect) {
    for (std::int64_t group = 0; group < groups; ++group) {
      // Not before the last one: the scalars may set the halt that these launches look at.
      const ScalarJob scalars{scalar_settings(rules.hyper), with_scalars && group + 1 == groups};
      launch(finite_norm_kernel<decltype(collect)>, piece_blocks(memory), block_threads, memory,
             grid_of(memory), OneGroup{group, groups == 1}, scalars);
    }
  });
}

}  // namespace zeroproof::cuda::device
