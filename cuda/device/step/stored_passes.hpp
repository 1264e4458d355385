#pragma once
// State and master in other formats than fp32, on a device (R25): the update loads codes, computes
// in registers and stores codes; no fp32 state exists in memory. One warp processes a block of 128
// elements, so that the largest magnitude of a block never leaves the registers of its warp.
//
// If a block crosses a boundary between ranks, a rank has a fragment of it, whose values are stored
// only after the ranks have combined their largest magnitudes. A step: collected = 0; stored
// update; [maximum of collected over ranks] store_fragments. Everything is enqueued on the current
// stream, nothing waits, nothing is allocated, no argument changes between steps. Needs no CUDA.

#include <cstdint>

#include "common/step/state_format.hpp"
#include "cuda/device/step/step_memory.hpp"
#include "cuda/device/step/step_passes.hpp"

namespace zeroproof::cuda::device {

/// The stored form of one buffer of a rule.
struct StoredBuffer {
  void* codes = nullptr;  // [shard_numel] in its format; null: not stored by a pass
  float* scale_inv =
      nullptr;  // [blocks of the rank] if the format has scales; else null, as the two below
  float* waiting = nullptr;            // unstored values of the fragments
  std::uint64_t* collected = nullptr;  // [num_words]: amax of this rank, then of all
  StateFormat format = StateFormat::fp32;
};

/// A range of the shard that is also one range of the undistributed tensor, with its blocks. It
/// begins and ends at block boundaries, or where the shard does.
struct StoredPiece {
  StepPiece step;
  std::int64_t first_scale = 0;  ///< index of its first block among those of the rank
  std::int32_t before = 0;       ///< elements of its first block before it: 0 to 127
  std::int32_t head =
      -1;  ///< fragment index of its part of its first block; -1: the whole block is here
  std::int32_t tail = -1;  ///< the same for its last block; equals head if that is the first one
};

/// A rank's part of a block that crosses a boundary between ranks.
struct StateFragment {
  std::int64_t local_begin = 0;
  std::int64_t numel = 0;  ///< 1 to 128
  std::int64_t tensor = 0;
  std::int64_t scale = 0;     ///< index of its block among those of the rank
  std::int64_t word = 0;      ///< index of its block among the shared blocks
  std::int64_t waits_at = 0;  ///< index of its first element among those of all fragments
};

/// Buffers of a rule besides the master.
inline constexpr int most_stored_buffers = 3;

/// Device pointers besides those of StepMemory.
struct StoredMemory {
  const StoredPiece* pieces = nullptr;       // [num_pieces]
  const StateFragment* fragments = nullptr;  // [num_fragments]
  void* master = nullptr;                    // [shard_numel] fp32, or bf16
  bool master_is_bf16 = false;
  StoredBuffer buffers[most_stored_buffers] = {};  // in the order of R6
  std::int64_t num_pieces = 0;
  std::int64_t num_fragments = 0;
};

/// update of every piece whose tensor has a gradient, by the rule (R6). Rounding of a bf16 master
/// uses the counts that decide(count) left, so decide(count) comes before.
void enqueue_stored_update(const StepMemory& memory, const StoredMemory& stored,
                           const StepRules& rules);

/// enqueue_fused_update for stored state. Errors: as there.
void enqueue_stored_fused_update(const StepMemory& memory, const StoredMemory& stored,
                                 const StepRules& rules);

/// enqueue_trust_norms for stored state.
void enqueue_stored_trust_norms(const StepMemory& memory, const StoredMemory& stored,
                                const StepRules& rules, bool fused);

/// Scales and codes of the fragments, from the collected magnitudes. Changes nothing in a skipped
/// step, after a halt, or for tensors without a gradient.
void enqueue_store_fragments(const StepMemory& memory, const StoredMemory& stored);

/// Loaded values of one piece, [numel] each in device memory; null for a missing buffer.
struct LoadedValues {
  const float* master = nullptr;
  const float* buffers[most_stored_buffers] = {};
  bool are_codes[most_stored_buffers] = {};  ///< widened codes, whose scales already exist
};

/// Stores them in the way of an update. piece: its index. Rounding of the master uses the current
/// counts.
void enqueue_store_loaded(const StepMemory& memory, const StoredMemory& stored,
                          const StepRules& rules, std::int64_t piece, const LoadedValues& values);

/// cast of a bf16 master: param = its bits.
void enqueue_copy_masters(const StepMemory& memory, const StoredMemory& stored);

}  // namespace zeroproof::cuda::device
