#pragma once
// Iteration of a launch over the piece table: block b processes pieces b, b + grid, ..., and its
// threads stride within the piece. A pass has
//   starts()      whether it runs at all: identical for all threads of the launch
//   enter(piece)  prepares a piece, or returns false to skip it: identical for all threads of a block
//   one(i)        element i of the piece
//   pack(i)       elements [i, i + 4) of the piece, aligned in every operand: the same arithmetic (R17)
// and, if it accumulates something,
//   finish()      called by every thread after its last element
// Each thread works on its own copy of the pass.

#include <cstddef>

#include "cuda/device/kernels/base/pack.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "cuda/device/step/step_memory.hpp"

namespace zeroproof::cuda::device {

/// Elements of one vector access, for fp32 and 16-bit buffers.
inline constexpr int step_pack_numel = 4;

/// Alignment of vectors. All buffers of a shard have the same local indices, so this is computed
/// before the launch.
class PackPhase {
 public:
  /// An operand; none if null.
  template <class T>
  PackPhase& with(const T* data) {
    if (data == nullptr) return *this;
    const auto first =
        static_cast<int>(reinterpret_cast<std::uintptr_t>(data) / sizeof(T) % step_pack_numel);
    phase_ = phase_ == unknown || phase_ == first ? first : never;
    return *this;
  }

  /// Elements of a piece before its first vector; numel if it contains no vector.
  ZP_HOST_DEVICE int head(std::int64_t local_begin, int numel) const {
    if (phase_ == never) return numel;
    const int head = (step_pack_numel - (phase_ + static_cast<int>(local_begin % step_pack_numel)) %
                                            step_pack_numel) %
                     step_pack_numel;
    return head < numel ? head : numel;
  }

 private:
  static constexpr int unknown = -1, never = -2;
  int phase_ = unknown;
};

struct PieceGrid {
  const StepPiece* pieces;
  std::int64_t num_pieces;
  PackPhase phase;
};

template <class Pass>
ZP_DEVICE void walk_piece(const PackPhase& phase, const StepPiece& piece, Pass& pass) {
  const int numel = static_cast<int>(piece.numel);
  const int head = phase.head(piece.local_begin, numel);
  const int packed = (numel - head) / step_pack_numel * step_pack_numel;
  const int thread = static_cast<int>(threadIdx.x);
  const int stride = static_cast<int>(blockDim.x);
  for (int i = step_pack_numel * thread; i < packed; i += step_pack_numel * stride)
    pass.pack(head + i);
  for (int i = thread; i < numel - packed; i += stride) pass.one(i < head ? i : i + packed);
}

template <class Pass>
ZP_KERNEL step_kernel(Pass pass, PieceGrid grid) {
  if (!pass.starts()) return;
  for (std::int64_t n = blockIdx.x; n < grid.num_pieces; n += gridDim.x) {
    const StepPiece& piece = grid.pieces[n];
    if (pass.enter(piece)) walk_piece(grid.phase, piece, pass);
  }
  if constexpr (requires { pass.finish(); }) pass.finish();
}

/// Blocks for a table that is not empty.
inline int piece_blocks(const StepMemory& memory) {
  return grid_blocks(memory.num_pieces * block_threads);
}

/// Enqueues the pass over all pieces. phase: of every buffer it reads or writes.
template <class Pass>
void run_pass(const Pass& pass, const StepMemory& memory, const PackPhase& phase) {
  if (memory.num_pieces == 0) return;
  launch(step_kernel<Pass>, piece_blocks(memory), block_threads, pass,
         PieceGrid{memory.pieces, memory.num_pieces, phase});
}

/// Index of the set of scalars of a piece.
ZP_DEVICE inline std::int64_t set_of(const StepMemory& memory, const StepPiece& piece) {
  return memory.tensor_steps != nullptr ? piece.tensor : piece.group;
}

/// The clip coefficient of a piece.
ZP_DEVICE inline float clip_coef_of(const StepMemory& memory, const StepPiece& piece) {
  const ClipGroupsFound& groups = memory.groups_found;
  return groups.count == 1 ? memory.found->clip_coef : groups.clip_coef[piece.clip_group];
}

ZP_DEVICE inline bool has_gradient(const StepMemory& memory, std::int64_t tensor) {
  return memory.has_grad == nullptr || ((memory.has_grad[tensor / 64] >> (tensor % 64)) & 1U) != 0U;
}

}  // namespace zeroproof::cuda::device
