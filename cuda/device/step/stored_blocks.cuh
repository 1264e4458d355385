#pragma once
// Iteration over the blocks of stored state: one warp per block, in the order of the pieces. A pass
// has
//   memory, stored     of its run
//   starts(), enter()  as in step_grid.cuh
//   block(block, at)   processes the elements `at` of a block; called by every lane of the warp,
//                      even without elements
//   finish()           as in step_grid.cuh

#include "cuda/device/step/step_grid.cuh"
#include "cuda/device/step/stored_element.cuh"

namespace zeroproof::cuda::device {

inline constexpr int warp_lanes = 32;
static_assert(warp_lanes * lane_numel == state_block_numel);

/// The part of a block that is in one piece.
struct BlockPart {
  std::int64_t scale;  ///< its index among the blocks of the rank
  int begin;           ///< of its elements within the piece
  int numel;
  int fragment;  ///< -1: the block is whole
};

ZP_HOST_DEVICE inline LaneElements lane_elements(const StoredPiece& piece, const BlockPart& block,
                                                 int lane, const PackPhase& phase) {
  const std::int64_t local = piece.step.local_begin + block.begin;
  const bool packs = phase.head(local, lane_numel) == 0;
  const int first = packs ? lane_numel * lane : lane;
  const int apart = packs ? 1 : warp_lanes;
  const int left = block.numel - first;  // elements from this lane's first one on
  const int count = (left + apart - 1) / apart;
  const int mine = left <= 0 ? 0 : (count < lane_numel ? count : lane_numel);
  return {local + first, block.begin + first, apart, mine};
}

template <class Pass>
ZP_DEVICE void walk_state_blocks(const StoredPiece& piece, const PackPhase& phase, Pass& pass) {
  constexpr int block_numel = static_cast<int>(state_block_numel);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % warp_lanes, warps = static_cast<int>(blockDim.x) / warp_lanes;
  const int numel = static_cast<int>(piece.step.numel);
  const int num_blocks = (piece.before + numel + block_numel - 1) / block_numel;
  for (int b = thread / warp_lanes; b < num_blocks; b += warps) {
    const int end = (b + 1) * block_numel - piece.before;
    const int begin = b == 0 ? 0 : end - block_numel;
    const int fragment = b == 0 ? piece.head : (b == num_blocks - 1 ? piece.tail : -1);
    const BlockPart block{piece.first_scale + b, begin, (end < numel ? end : numel) - begin,
                          fragment};
    pass.block(block, lane_elements(piece, block, lane, phase));
  }
}

// With two blocks of threads requested, the compiler does not spill one or two registers in order
// to fit four.
template <class Pass>
ZP_KERNEL_BLOCKS(2)
stored_kernel(Pass pass, PackPhase phase) {
  if (!pass.starts()) return;
  for (std::int64_t n = blockIdx.x; n < pass.stored.num_pieces; n += gridDim.x) {
    const StoredPiece& piece = pass.stored.pieces[n];
    if (pass.enter(piece.step)) walk_state_blocks(piece, phase, pass);
  }
  if constexpr (requires { pass.finish(); }) pass.finish();
}

/// Enqueues the pass over all pieces. phase: of every buffer it reads or writes.
template <class Pass>
void run_stored_pass(const Pass& pass, const PackPhase& phase) {
  if (pass.stored.num_pieces == 0) return;
  launch(stored_kernel<Pass>, grid_blocks(pass.stored.num_pieces * block_threads), block_threads,
         pass, phase);
}

/// The settings of the storage of a run.
inline PackPhase with_stored(PackPhase phase, const StoredMemory& stored) {
  for (const StoredBuffer& buffer : stored.buffers) {
    if (buffer.format == StateFormat::fp32)
      phase = phase.with(static_cast<const float*>(buffer.codes));
    if (buffer.format == StateFormat::e4m3)
      phase = phase.with(static_cast<const std::uint8_t*>(buffer.codes));
    if (buffer.format == StateFormat::bf16 || buffer.format == StateFormat::fp16)
      phase = phase.with(static_cast<const std::uint16_t*>(buffer.codes));
  }
  if (stored.master_is_bf16) return phase.with(static_cast<const std::uint16_t*>(stored.master));
  return phase.with(static_cast<const float*>(stored.master));
}

/// Returns the largest magnitude of a warp's values to all its lanes; a NaN is larger than every
/// number (R22).
ZP_DEVICE inline std::uint32_t amax_of_warp(const Pack<float>& values, int count) {
  std::uint32_t largest = 0;
  ZP_UNROLL
  for (int k = 0; k < lane_numel; ++k) {
    const std::uint32_t bits = bits_of(values.v[k]) & 0x7FFFFFFFU;
    const std::uint32_t magnitude = bits > infinite_amax ? 0x7FFFFFFFU : bits;
    if (k < count && magnitude > largest) largest = magnitude;
  }
  return __reduce_max_sync(0xFFFFFFFFU, largest);
}

/// Stores the values of a block. Those of a fragment that needs the other ranks' maximum are kept
/// in fragment order.
ZP_DEVICE inline void store_block(const StoredMemory& stored, int number, const BlockPart& block,
                                  const LaneElements& at, const Pack<float>& values) {
  const StoredBuffer& buffer = stored.buffers[number];
  if (!is_scaled(buffer.format)) return store_codes(buffer, at, values, 1.0F);
  const std::uint32_t amax = amax_of_warp(values, at.count);
  const bool speaks = threadIdx.x % warp_lanes == 0;
  if (block.fragment < 0) {
    const float scale = state_scale(buffer.format, amax);
    if (speaks) buffer.scale_inv[block.scale] = 1.0F / scale;
    return store_codes(buffer, at, values, scale);
  }
  const StateFragment& fragment = stored.fragments[block.fragment];
  float* const waiting = buffer.waiting + fragment.waits_at - block.begin;
  ZP_UNROLL
  for (int k = 0; k < lane_numel; ++k)
    if (k < at.count) waiting[at.i + at.apart * k] = values.v[k];
  if (!speaks || amax == 0U) return;
  using Word = unsigned long long;  // the type of atomicMax
  atomicMax(reinterpret_cast<Word*>(buffer.collected + fragment.word), Word{amax});
}

}  // namespace zeroproof::cuda::device
